import re

import pytest

from cdk import ConfigError, Json
from cdk.rest.declared.placeholders import Placeholder, filled, filled_path, filled_text, placeholders


def values(placeholder: Placeholder) -> Json:
    return {"id": 7, "name": "a/b ü", "none": None, "braces": "{config.id}", "url": "https://x.test/y"}[
        placeholder.field
    ]


def test_a_placeholder_alone_leaves_its_value_as_it_is_and_one_in_a_text_becomes_text() -> None:
    template: dict[str, Json] = {"id": "{config.id}", "list": ["{a.none}", 3, {"text": "no. {a.id}"}]}

    assert filled(template, values) == {"id": 7, "list": [None, 3, {"text": "no. 7"}]}
    assert [*placeholders(template)] == [Placeholder("config", "id"), Placeholder("a", "none"), Placeholder("a", "id")]


def test_a_value_is_never_looked_through_for_placeholders() -> None:
    assert filled("{config.braces}!", values) == "{config.id}!"


@pytest.mark.parametrize(
    ("template", "path"),
    [
        ("/users/{a.name}/posts", "/users/a%2Fb%20%C3%BC/posts"),
        ("{a.url}/posts/{a.id}", "https://x.test/y/posts/7"),
        ("", ""),
    ],
)
def test_what_a_path_names_is_quoted_unless_it_begins_with_it(template: str, path: str) -> None:
    assert filled_path(template, values) == path


@pytest.mark.parametrize("value", [".", ".."])
@pytest.mark.parametrize("template", ["/orgs/{a.id}/repos", "/orgs/{a.id}", "{a.id}/repos", "/orgs/{a.id}?all=1"])
def test_a_value_that_leads_to_another_endpoint_is_refused_by_name(template: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"^\{{a.id\}} is '{re.escape(value)}', which turns .* another endpoint"):
        filled_path(template, lambda _: value)


def test_several_values_may_make_such_a_segment() -> None:
    with pytest.raises(ConfigError, match=r"\{a.id\} is '\.', which turns a segment of the path .* into '\.\.'"):
        filled_path("/orgs/{a.id}{b.id}", lambda _: ".")


@pytest.mark.parametrize(
    ("template", "value", "path"),
    [
        ("/files/{a.id}", "...", "/files/..."),
        ("/files/{a.id}.json", "..", "/files/...json"),
        ("/files/v{a.id}", ".", "/files/v."),
        ("/files/{a.id}", "../x", "/files/..%2Fx"),
        ("/files/{a.id}", "%2e%2e", "/files/%252e%252e"),
        ("/files?in=/{a.id}", "..", "/files?in=/.."),
    ],
)
def test_dots_within_a_segment_are_values_as_others(template: str, value: str, path: str) -> None:
    assert filled_path(template, lambda _: value) == path


def test_doubled_braces_are_braces() -> None:
    assert filled_text("{{ users(first: {a.id}) {{ id }} }}", values) == "{ users(first: 7) { id } }"


@pytest.mark.parametrize("text", ["{id}", "{a.}", "{.id}", "{", "a}", "{ {a.id} }"])
def test_other_braces_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"expected \{config.NAME\}.* double a literal brace"):
        [*placeholders({"query": text})]


def test_null_is_no_part_of_a_text() -> None:
    with pytest.raises(ConfigError, match=r"\{a.none\} is null, .*; every record of a must have it"):
        filled_path("/users/{a.none}", values)
