"""Links of a header, by relation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk.rest.pagination.page_signs import links


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", {}),
        ("nonsense", {}),
        ("<a>", {}),
        ("<a>; rel=next", {"next": {"url": "a", "rel": "next"}}),
        (
            '<a>; rel="next"; results="true"; cursor="0:100:0"',
            {"next": {"url": "a", "rel": "next", "results": "true", "cursor": "0:100:0"}},
        ),
        ('<a>; results="false"; rel="next"', {"next": {"url": "a", "results": "false", "rel": "next"}}),
        ('<a> ; REL = "Next Last"', {name: {"url": "a", "rel": "Next Last"} for name in ("next", "last")}),
        (
            '<a?x=1,2;y>; rel="prev"; title="b, <c>; rel=next", <d>; rel="next"',
            {
                "prev": {"url": "a?x=1,2;y", "rel": "prev", "title": "b, <c>; rel=next"},
                "next": {"url": "d", "rel": "next"},
            },
        ),
        ("<a>; rel=next, <b>; rel=next", {"next": {"url": "a", "rel": "next"}}),
        ('<a>; title=""; rel=next', {"next": {"url": "a", "title": "", "rel": "next"}}),
    ],
)
def test_links_are_found_with_their_parameters(header: str, expected: dict[str, dict[str, str]]) -> None:
    assert links(header) == expected


PLAIN = st.text(st.characters(exclude_characters='"\\\r\n', codec="ascii"), max_size=8)
TARGETS = st.text("abc/?=&,;.:", min_size=1, max_size=12)


@given(st.lists(st.tuples(TARGETS, PLAIN), min_size=1, max_size=4))
def test_what_was_written_is_what_is_read(made: list[tuple[str, str]]) -> None:
    header = ", ".join(f'<{target}>; title="{title}"; rel="r{n}"' for n, (target, title) in enumerate(made))

    assert links(header) == {
        f"r{n}": {"url": target, "title": title, "rel": f"r{n}"} for n, (target, title) in enumerate(made)
    }


@pytest.mark.parametrize(
    "part",
    ["<", "<>", '"', '<a>"', '<a>\\"', "<a>;", ";a=", '; a="', " ", "<a>; rel=next, ", "<a> ;\t a", "\\", "<a>;a"],
)
def test_a_long_header_takes_as_many_steps_as_letters(part: str) -> None:
    # With a step for each pair of letters this would take longer than the limit of a test by far.
    header = part * (300_000 // len(part))

    for begin in ("", "<a>; rel=next; ", '<a>; rel=next; x="'):
        assert set(links(begin + header)) <= {"next"}
