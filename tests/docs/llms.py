"""`docs/llms.txt`, the pages for assistants, made of the index for people: `python -m tests.docs.llms` writes it."""

import re
from collections.abc import Iterator

from tests.docs.page import DOCS

FILE = DOCS / "llms.txt"
_ENTRY = re.compile(r"^- .*(?:\n  .*)*", re.MULTILINE)
_FAMILY, _NAME = re.compile(r"^- \[([^\]]+)\]\(([\w-]+\.md)\): (.*)$", re.MULTILINE), re.compile(r"\[(\w+)\]")
_SUMMARY = (
    "A connector development kit: from an API to Delta tables, rows and state in one commit, by Python or a manifest."
)


def written() -> str:
    """The file: the sections of the index, an entry a line, and the families of the manifest language."""
    return (
        "\n".join(["# spark-cdk", "", f"> {_SUMMARY}", *_sections((DOCS / "README.md").read_text()), *_families()])
        + "\n"
    )


def _sections(index: str) -> Iterator[str]:
    for section in index.split("\n## ")[1:]:
        yield from ("", f"## {section.partition(chr(10))[0]}", "")
        yield from (re.sub(r"\n\s+", " ", entry) for entry in _ENTRY.findall(section))


def _families() -> Iterator[str]:
    yield from ("", "## Components of manifests", "")
    yield "- [How manifests are written](reference/manifest/language.md)"
    for name, page, components in _FAMILY.findall((DOCS / "reference" / "manifest" / "index.md").read_text()):
        yield f"- [{name}](reference/manifest/{page}): {', '.join(_NAME.findall(components))}"


if __name__ == "__main__":
    FILE.write_text(written())
