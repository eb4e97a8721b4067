"""Drafting again: merges a new draft into a folder; changes that people made since the last draft are preserved.

A folder stores the texts of its last draft (`LOCK`). In a manifest, each stream, each config property and each other
key is merged separately, with its comments; in JSON files, each property or element.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, TypeVar

import yaml
from msgspec import Struct

from cdk.base.errors import ConfigError
from cdk.base.values import JsonValue, as_object, as_string, canonical, from_json, to_json
from cdk.base.yaml_file import YamlFile, read_text

LOCK = Path("drafted.lock.json")
_MANIFEST, _README = Path("manifest.yaml"), Path("README.md")
_FORMAT = "spark-cdk-draft/1"
_NOTHING = "{}"
"""An empty file, in both YAML and JSON."""

_STREAMS = ("definitions", "streams")
_PROPERTIES = ("spec", "connection_specification", "properties")
_BRANCHES = {_STREAMS[:1], _STREAMS, _PROPERTIES[:1], _PROPERTIES[:2], _PROPERTIES}
_LISTS = {("streams",), (*_PROPERTIES[:2], "required")}

_NEW, _CHANGED = "new", "changed by hand, left as it is"
_REMOVED, _STALE = "removed by hand, not restored", "no longer described, removed"
_HOMELESS = "new, but what they belong to was removed by hand"

K = TypeVar("K")
V = TypeVar("V")
Key = tuple[str, ...]


def merge(base: Mapping[K, V], mine: Mapping[K, V], new: Mapping[K, V]) -> tuple[dict[K, V], dict[str, list[K]]]:
    """Merge three ways: changes of `mine` since `base` are preserved, everything else is taken from `new`.

    Returns the values, in the order of the user's, followed by the new ones; and which names were `_NEW`, `_CHANGED` or
    `_REMOVED` by the user, or `_STALE`: `new` no longer has them, and so neither has the merge.
    """
    values, notes = dict(mine), {title: list[K]() for title in (_NEW, _HOMELESS, _CHANGED, _REMOVED, _STALE)}
    for key, value in mine.items():
        if base.get(key) != value:
            if new.get(key) != value:
                notes[_CHANGED].append(key)
        elif key in new:
            values[key] = new[key]
        else:
            del values[key]
            notes[_STALE].append(key)
    for key, value in new.items():
        if key not in mine and key not in base:
            values[key] = value
            notes[_NEW].append(key)
        elif key not in mine:
            notes[_REMOVED].append(key)
    return values, notes


def lock(files: Mapping[Path, str]) -> str:
    """Return the text of the lock file for the files of a draft."""
    return to_json(
        {"format": _FORMAT, "files": {str(path): text for path, text in files.items()}}, indent=True
    ).decode()


def is_drafted(folder: Path) -> bool:
    """Whether a folder holds a draft that a new one can be merged with."""
    return (folder / LOCK).is_file()


def drafted_streams(folder: Path) -> Mapping[str, JsonValue]:
    """Return the streams of a folder by name: those of its last draft, and those added by hand.

    Raises ConfigError: when a file of the folder cannot be read.
    """
    streams: dict[str, JsonValue] = {}
    for text in (_text(folder / _MANIFEST), _last(folder).get(_MANIFEST)):
        manifest = YamlFile.parse(text or "", folder / _MANIFEST).value
        streams |= as_object(as_object(as_object(manifest).get("definitions")).get("streams"))
    return streams


class Redraft(Struct, frozen=True):
    """A merged draft. files: to write. locked: the texts for the lock. notes: for the user."""

    files: dict[Path, str]
    locked: dict[Path, str]
    notes: list[str]


def redrafted(folder: Path, drafted: Mapping[Path, str], *, adds: bool) -> Redraft:
    """Merge a draft into the files of a folder with an earlier draft.

    adds: whether `drafted` holds only streams to add; then nothing else changes.

    Raises ConfigError: when a file of the folder cannot be read.
    """
    before = _last(folder)
    redraft = Redraft({}, dict(drafted), [])
    for path, text in drafted.items():
        base, mine, join = before.get(path), _text(folder / path), _join(path)
        new = text
        try:
            if base is not None and adds:
                new = base if join is None else join(_NOTHING, base, text, [])
                redraft.locked[path] = new
            if mine is None:
                if base is None:
                    redraft.files[path] = new
            elif base is not None and join is not None:
                redraft.files[path] = join(base, mine, new, redraft.notes)
            elif mine == base:
                redraft.files[path] = new
            elif new not in {mine, base}:
                redraft.notes.append(f"{_CHANGED}: {path}")
        except (ValueError, yaml.YAMLError) as error:
            raise ConfigError(f"cannot be merged with a new draft: {error}", path=str(folder / path)) from error
    return redraft


Join: TypeAlias = Callable[[str, str, str, list[str]], str]


def _readme(base: str, mine: str, new: str, notes: list[str]) -> str:
    """Return the user's text if they changed it; else the new one. New lines are added if `new` only adds streams."""
    if base == _NOTHING:
        further = [line for line in new.splitlines() if line.startswith("- ") and line not in mine.splitlines()]
        return "".join([mine, *(f"{line}\n" for line in further)])
    if base not in {mine, new}:
        notes.append(f"{_CHANGED}: {_README}")
    return new if mine == base else mine


def _join(path: Path) -> Join | None:
    """Return the function that merges the texts of a file; None if the file is only compared as a whole."""
    if path == _MANIFEST:
        return _manifest
    if path == _README:
        return _readme
    return _json if path.name in {"config.example.json", "responses.json"} else None


def _last(folder: Path) -> Mapping[Path, str]:
    """Return the texts of the last draft. Raises ConfigError: when the lock is not JSON or has another format."""
    text = _text(folder / LOCK)
    if text is None:
        return {}
    try:
        document = as_object(from_json(text))
    except json.JSONDecodeError as error:
        words = f"is not JSON: {error}; restore it, or draft into another folder"
        raise ConfigError(words, path=str(folder / LOCK)) from error
    if (form := document.get("format")) != _FORMAT:
        why = f"found the format {str(form)[:50]!r}, expected {_FORMAT!r}; restore it, or draft into another folder"
        raise ConfigError(why, path=str(folder / LOCK))
    return {Path(path): as_string(text) for path, text in as_object(document.get("files")).items()}


def _text(path: Path) -> str | None:
    return read_text(path) if path.exists() else None


def _json(base: str, mine: str, new: str, _: list[str]) -> str:
    """Merge JSON: objects by property, lists of responses by their request."""
    documents = [from_json(text) for text in (base, mine, new)]
    old, own, drafted = map(_keyed, documents)
    merged = merge(old, own, drafted)[0]
    value: JsonValue = list(merged.values()) if isinstance(documents[1], list) else merged
    return to_json(value, indent=True).decode() + "\n"


def _keyed(document: JsonValue) -> dict[str, JsonValue]:
    if not isinstance(document, list):
        return dict(as_object(document))
    request = ("method", "path", "params", "body")
    return {canonical([as_object(each).get(name) for name in request]): each for each in document}


def _manifest(base: str, mine: str, new: str, notes: list[str]) -> str:
    old, own, drafted = (_parts(_in_block_style(text)) for text in (base, mine, new))
    merged, titled = merge(old, own, drafted)
    order = list(own)
    for key in [*titled[_NEW]]:
        inside = [index for index, other in enumerate(order) if other[: len(key) - 1] == key[:-1]]
        if inside or not key[:-1]:
            order.insert(inside[-1] + 1 if inside else len(order), key)
        else:
            titled[_NEW].remove(key)
            titled[_HOMELESS].append(key)
    text = "".join(merged[key] for key in order if key in merged)
    text = mine if merged == own else _with_empty_collections(text)
    for title, keys in titled.items():
        if names := list(_names(keys)):
            notes.append(f"{title}: {', '.join(names)}")
    return text


def _names(keys: Sequence[Key]) -> Iterator[str]:
    for key in keys:
        if key[:-1] == _STREAMS:
            yield key[-1]
        elif key[:1] != ("streams",) and key[:-1] not in _LISTS:
            yield ".".join(key)


def _collections(node: yaml.Node | None, path: Key = ()) -> Iterator[tuple[Key, yaml.Node, yaml.Node]]:
    """Yield the collections that are merged part by part, outer ones first: path, name node and value node."""
    for name, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if (inner := (*path, str(name.value))) in _BRANCHES | _LISTS:
            yield inner, name, value
            yield from _collections(value, inner)


def _in_block_style(text: str) -> str:
    """Return a manifest with a line for each part: `- a` for `[a]`, and nothing for `{}` and `[]`."""
    for path, name, value in _collections(yaml.compose(text)):
        if isinstance(value, yaml.CollectionNode) and value.flow_style:
            items = [(each, each) if path in _LISTS else each for each in value.value]
            begin = f"\n{' ' * (name.start_mark.column + 2)}{'- ' if path in _LISTS else ''}"
            lines = [begin + text[first.start_mark.index : last.end_mark.index] for first, last in items]
            return _in_block_style(f"{text[: name.end_mark.index]}:{''.join(lines)}{text[value.end_mark.index :]}")
    return text


def _with_empty_collections(text: str) -> str:
    """Return a manifest with `{}` and `[]` in place of nothing. Raises YAMLError: when the text is not YAML."""
    for path, name, value in _collections(yaml.compose(text)):
        if value.start_mark.index == value.end_mark.index:
            end = name.end_mark.index + 1
            return _with_empty_collections(f"{text[:end]} {'[]' if path in _LISTS else '{}'}{text[end:]}")
    return text


def _parts(text: str) -> dict[Key, str]:
    """Return the text of each part of a manifest; blank lines and comments belong to the part after them."""
    starts: dict[int, Key] = {}

    def visit(node: yaml.Node | None, path: Key) -> None:
        match node:
            case yaml.MappingNode(flow_style=False):
                for name, value in node.value:
                    starts.setdefault(name.start_mark.line, (*path, str(name.value)))
                    if (*path, name.value) in _BRANCHES | _LISTS:
                        visit(value, (*path, name.value))
            case yaml.SequenceNode(flow_style=False):
                for item in node.value:
                    starts.setdefault(item.start_mark.line, (*path, str(item.value)))
            case _:
                pass

    visit(yaml.compose(text), ())
    lines = text.splitlines(keepends=True)
    parts: dict[Key, str] = {}
    ends = [*list(starts)[1:], len(lines)]
    if not starts:
        return parts
    pending = "".join(lines[: next(iter(starts), 0)])
    for (begin, key), end in zip(starts.items(), ends, strict=True):
        own = end
        while own > begin + 1 and end < len(lines) and lines[own - 1].strip()[:1] in {"", "#"}:
            own -= 1
        parts[key] = parts.get(key, "") + pending + "".join(lines[begin:own])
        pending = "".join(lines[own:end])
    return parts
