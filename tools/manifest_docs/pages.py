"""The reference pages of the manifest language: one for each family, rendered from its components."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import orjson
from msgspec import Struct

from cdk.declarative.components import register
from cdk.declarative.model.component import Component
from cdk.declarative.model.component_docs import component_docs
from cdk.declarative.model.field_shapes import (
    AnyOf,
    Choice,
    Either,
    FieldShape,
    ListOf,
    MapOf,
    Nothing,
    Part,
    Shape,
    fields_of,
    kind_of,
    leaves,
    open_to_more,
    parts_of,
    words,
)

_NOTE = "<!-- Written by `python -m tools.manifest_docs.language --write`; change the docstrings instead. -->\n"
_INTRODUCTION = "[How manifests are written](language.md), and every component, by its family:\n"
_SOURCE = "source"
_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])")


def component_pages() -> dict[str, str]:
    """The text of each page by its file name, `index.md` among them."""
    register()
    pages: defaultdict[str, list[type[Component]]] = defaultdict(list)
    places = _places()
    for name in sorted(Component.registry):
        pages[places[name]].append(Component.registry[name])
    made = {f"{page}.md": _page(page, kinds, places) for page, kinds in sorted(pages.items())}
    return {"index.md": _index(pages), **made}


def _places() -> dict[str, str]:
    """The page of each component: that of its family, or of what uses it."""
    users: defaultdict[str, set[str]] = defaultdict(set)
    for name, kind in Component.registry.items():
        for model in parts_of(kind):
            users[kind_of(model)].add(name)

    def place(name: str, seen: frozenset[str]) -> str | None:
        if (family := _family(Component.registry[name])) is not None:
            return _slug(kind_of(family))
        found = (place(user, seen | {name}) for user in sorted(users[name] - seen - {name}))
        return next((page for page in found if page is not None), None)

    return {name: place(name, frozenset()) or _SOURCE for name in Component.registry}


def _family(kind: type[Component]) -> type[Component] | None:
    """The widest family of a component."""
    bases = [base for base in kind.__mro__ if base.__name__.startswith("Any") and issubclass(base, Component)]
    return bases[-1] if bases else None


def _slug(name: str) -> str:
    return _HUMPS.sub("-", name).lower()


def _title(page: str) -> str:
    return page.replace("-", " ").capitalize()


def _index(pages: Mapping[str, list[type[Component]]]) -> str:
    lines = [_NOTE, "# The manifest language\n", _INTRODUCTION]
    for page, kinds in sorted(pages.items()):
        names = ", ".join(f"[{kind_of(kind)}]({page}.md#{kind_of(kind).lower()})" for kind in kinds)
        lines.append(f"- [{_title(page)}]({page}.md): {names}")
    return "\n".join(lines) + "\n"


def _page(page: str, kinds: list[type[Component]], places: Mapping[str, str]) -> str:
    families = sorted({family for kind in kinds if (family := _family(kind)) is not None}, key=kind_of)
    about = component_docs(families[0]).text if families else "The manifest as a whole."
    # Members of the family first, then what they are made of.
    ordered = sorted(kinds, key=lambda kind: (_family(kind) is None, kind_of(kind)))
    return "\n".join([_NOTE, f"# {_title(page)}\n", f"{about}\n", *(_section(k, page, places) for k in ordered)])


def _section(kind: type[Component], page: str, places: Mapping[str, str]) -> str:
    said = component_docs(kind)
    lines = [f"## {kind_of(kind)}\n", f"{said.text}\n", *_table(_rows(kind, page, places))]
    if open_to_more(kind):
        lines.append("Other fields are kept.\n")
    if said.example:
        lines.append(f"```yaml\n{said.example}\n```\n")
    for model in _own_parts(kind):
        lines += [f"### {kind_of(model)}\n", f"{component_docs(model).text}\n", *_table(_rows(model, page, places))]
    return "\n".join(lines)


def _own_parts(kind: type[Component]) -> Iterator[type[Struct]]:
    """What the fields of a component are made of that is no component: it has no `type`, and no other place."""
    for field in fields_of(kind).values():
        for leaf in leaves(field.shape):
            if isinstance(leaf, Part) and not issubclass(leaf.model, Component):
                yield leaf.model


def _table(rows: Sequence[str]) -> Sequence[str]:
    return ["| Field | Takes | Default | Meaning |", "|---|---|---|---|", *rows, ""] if rows else []


def _rows(model: type[Struct], page: str, places: Mapping[str, str]) -> list[str]:
    texts = component_docs(model).fields
    return [_row(field, texts[key], page, places) for key, field in fields_of(model).items() if key != "$parameters"]


def _row(field: FieldShape, description: str, page: str, places: Mapping[str, str]) -> str:
    default = "required" if field.required else "" if field.default is None else f"`{_shown(field.default)}`"
    if not field.required and field.default == "":
        default = "empty"
    cells = (f"`{field.key}`", _takes(field.shape, page, places), default, description)
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def _shown(default: object) -> str:
    return orjson.dumps(default, default=str).decode()


def _takes(shape: Shape, page: str, places: Mapping[str, str]) -> str:  # noqa: PLR0911 - one for each shape there is
    """What a field takes, with links to the pages of the components."""
    match shape:
        case Either(options=options):
            return ", or ".join(_takes(one, page, places) for one in options if not isinstance(one, Nothing))
        case ListOf(item=Part() | AnyOf() | Either() as item, alone=alone) if _linked(item):
            inner = _takes(item, page, places)
            return f"{inner}, or a list of them" if alone else f"a list: {inner}"
        case MapOf(item=Part() | AnyOf() | Either() | ListOf() as item):
            return f"an object: {_takes(item, page, places)}"
        case Part(model=model) if issubclass(model, Component):
            return _link(kind_of(model), places.get(kind_of(model), page), page, anchor=True)
        case Part(model=model):
            return _link(kind_of(model), page, page, anchor=True)
        case AnyOf(kind=kind):
            widest = _family(kind) or kind
            link = _link(kind_of(kind), _slug(kind_of(widest)), page, anchor=False)
            implied = "" if kind.implied is None else kind.implied.type
            return f"{link} (`{implied}` without a `type`)" if implied else link
        case Choice(values=values):
            return " or ".join(f"`{value}`" for value in values)
        case _:
            return words(shape)


def _linked(shape: Shape) -> bool:
    """Whether there are components in it."""
    return any(isinstance(leaf, Part | AnyOf) for leaf in leaves(shape))


def _link(name: str, target: str, page: str, *, anchor: bool) -> str:
    file = "" if target == page and anchor else f"{target}.md"
    return f"[{name}]({file}{f'#{name.lower()}' if anchor else ''})"
