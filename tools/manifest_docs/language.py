"""The reference pages of the manifest language: `python -m tools.manifest_docs.language` writes them."""

import sys
from collections.abc import Mapping
from pathlib import Path

from tools.manifest_docs.pages import component_pages

PAGES = Path("docs/reference/manifest")
"""Where the reference pages lie in the project."""


def write_pages(folder: Path) -> list[Path]:
    """Write the reference pages into a folder, and remove pages of families that are gone. The files written."""
    folder.mkdir(parents=True, exist_ok=True)
    pages: Mapping[str, str] = component_pages()
    for old in folder.glob("*.md"):
        if old.name not in pages and old.read_text().startswith("<!-- Written by"):
            old.unlink()
    for name, text in pages.items():
        (folder / name).write_text(text)
    return [folder / name for name in pages]


if __name__ == "__main__":
    sys.stdout.writelines(f"{page}\n" for page in write_pages(PAGES))
