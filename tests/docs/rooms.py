"""The rooms, drawn from the contracts of imports: `python -m tests.docs.rooms` writes them into the page."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.docs.page import DOCS

ROOT = DOCS.parent
PAGE = DOCS / "explanation" / "architecture.md"
BEGIN, END = "<!-- rooms: written by `python -m tests.docs.rooms` -->\n", "<!-- end of rooms -->\n"


def drawn() -> str:
    """The rooms as a block of Markdown: a line for each, and below it the rooms inside, the highest first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = {
        container: contract["layers"]
        for contract in settings["contracts"]
        if contract["type"] == "layers"
        for container in contract["containers"]
    }
    lines = [line for layer in layers["cdk"] for line in _layer(layers, "cdk", layer)]
    return "\n".join([f"{BEGIN}```text", *lines, f"```\n{END}"])


def _layer(layers: dict[str, list[str]], container: str, layer: str) -> Iterator[str]:
    rooms = [f"{container}.{name.strip()}" for name in layer.split("|")]
    for room in rooms:
        beside = "" if room == rooms[0] else "| "
        yield f"{beside + room.removeprefix('cdk.'):13} {_sentence(room)}".rstrip()
        if inside := layers.get(room):
            yield f"{'':13}   {' > '.join(inside)}"


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
    """Write the rooms into the page."""
    Path(PAGE).write_text(written(PAGE.read_text()))


if __name__ == "__main__":
    main()
