"""A hook of the site's build: each page as Markdown too, where `llms.txt` says, and all in `llms-full.txt`."""

import re
from pathlib import Path

from markdownify import ATX, markdownify
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.pages import Page

_pages: dict[str, str] = {}
_LINKED = re.compile(r"\]\(([\w/-]+\.md)\)")
# What docstrings become is only in the HTML, with a sign after each heading that links to it.
_REFERENCE, _PERMALINK = "\n::: ", re.compile(r" *¶$", re.MULTILINE)


def on_page_content(html: str, page: Page, **_: object) -> None:
    """Notes the page's own Markdown or, where the build writes the page from docstrings, what became of them."""
    source = page.markdown or ""
    if _REFERENCE in source:
        markdown = markdownify(html, heading_style=ATX, strip=["a"], code_language="python")
        source = _PERMALINK.sub("", markdown)
    _pages[page.file.src_uri] = source.strip() + "\n"


def on_post_build(config: MkDocsConfig) -> None:
    """Writes the pages beside the HTML, under the names of their sources, so that links between them hold."""
    site = Path(config.site_dir)
    for name, text in _pages.items():
        (site / name).write_text(text)
    index = (site / "llms.txt").read_text()
    everything = [index, *(f"<!-- {name} -->\n\n{_pages[name]}" for name in _LINKED.findall(index))]
    (site / "llms-full.txt").write_text("\n".join(everything))
