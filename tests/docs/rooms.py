"""The rooms, drawn from the contracts of imports: `python -m tests.docs.rooms` writes them into the page."""

import ast
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.docs.page import DOCS
from tests.docs.svg import LINE, Drawing

ROOT = DOCS.parent
PAGE = DOCS / "explanation" / "architecture.md"
PICTURE = DOCS / "pictures" / "rooms.svg"
BEGIN, END = "<!-- rooms: written by `python -m tests.docs.rooms` -->\n", "<!-- end of rooms -->\n"


@dataclass(frozen=True)
class Room:
    """A package or module of the kit. inside: the layers of the rooms in it, the highest first."""

    name: str
    sentence: str
    inside: tuple[str, ...]


def rooms() -> list[list[Room]]:
    """The layers of the kit, the highest first, each with its rooms."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = {
        container: contract["layers"]
        for contract in settings["contracts"]
        if contract["type"] == "layers"
        for container in contract["containers"]
    }
    return [
        [
            Room(name, _sentence(f"cdk.{name}"), tuple(layers.get(f"cdk.{name}", ())))
            for name in map(str.strip, layer.split("|"))
        ]
        for layer in layers["cdk"]
    ]


def drawn() -> str:
    """The rooms as a block of Markdown: a line for each, and below it the rooms inside, the highest first."""
    lines: list[str] = []
    for layer in rooms():
        for room in layer:
            beside = "" if room is layer[0] else "| "
            lines.append(f"{beside + room.name:13} {room.sentence}".rstrip())
            lines += [f"{'':13}   {' > '.join(room.inside)}"] if room.inside else []
    return "\n".join([f"{BEGIN}```text", *lines, f"```\n{END}"])


def house() -> Drawing:
    """The rooms, as the contracts of imports have them: each imports only from rooms below it."""
    layers = [[room for room in layer if room.inside or room.name != "__main__"] for layer in rooms()]
    layers = [layer for layer in layers if layer]
    heights = [34 + LINE * max(len(room.inside) for room in layer) for layer in layers]
    picture = Drawing(820, 40 + sum(heights) + 10 * len(layers), "The rooms of the code: imports go down only")
    y = 20
    for layer, height in zip(layers, heights, strict=True):
        width = (780 - 10 * (len(layer) - 1)) / len(layer)
        for n, room in enumerate(layer):
            style = ("blue", "green", "box")[min(2, layers.index(layer) // 4)]
            picture.box(20 + n * (width + 10), y, width, height, f"cdk.{room.name}", *room.inside, style=style)
        y += height + 10
    picture.text(410, y + 4, "imports go down only, and never between rooms beside each other", style="middle small")
    return picture


def _sentence(room: str) -> str:
    """The first line of the docstring of a package or module."""
    path = ROOT.joinpath(*room.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return (ast.get_docstring(ast.parse(file.read_text())) or "").partition("\n")[0]


def written(page: str) -> str:
    """The page with the rooms as they are."""
    before, _, rest = page.partition(BEGIN)
    return before + drawn() + rest.partition(END)[2]


def main() -> None:
    """Write the rooms into the page, and draw their picture."""
    Path(PAGE).write_text(written(PAGE.read_text()))
    PICTURE.write_text(str(house()))


if __name__ == "__main__":
    main()
