import re

import pytest

from cdk import ConfigError, CountCursor, Json, JsonSchema
from cdk.base.secret_masking import secret_places
from cdk.rest import Bearer, OAuth2, RestSource, resource

REPOS = resource("repos", "/repos")
COUNTED = resource("builds", "/builds", cursor=CountCursor("number"))


def test_a_source_is_of_the_module_that_it_is_written_in() -> None:
    assert RestSource("https://api.test", REPOS).module == __name__


@pytest.mark.parametrize(
    ("resources", "slips"),
    [
        ([REPOS, resource("repos", "/more")], ["repos: two resources have this name; rename one of them"]),
        (
            [resource("config", "/config")],
            ["config: a resource cannot have this name, which placeholders reserve; rename it"],
        ),
        (
            [
                REPOS,
                resource("issues", "/{repo.id}/issues", add_fields={"owner": "{confg.owner}", "repo": "{repo.id}"}),
            ],
            [
                "issues: {repo.id}: there is no such resource; did you mean 'repos'?",
                "issues: {confg.owner}: there is no such resource; did you mean 'config'?",
            ],
        ),
        (
            [resource("a", "/a", params={"since": "{window.start}"})],
            ["a: {window.start}: the resource has no cursor; add one"],
        ),
        (
            [resource("a", "/a", params={"since": "{window.begin}"}, cursor=CountCursor("version"))],
            ["a: {window.begin}: a window has no such field; there is 'end', 'start'"],
        ),
        (
            [resource("a", "/{b.id}"), resource("b", "/{a.id}"), resource("c", "/{id}")],
            [
                "a: is its own ancestor: b uses its records, and it uses those of b; remove the placeholder",
                "b: is its own ancestor: a uses its records, and it uses those of a; remove the placeholder",
                "c: found {id}, expected {config.NAME}",
            ],
        ),
        (
            [REPOS, resource("users", "/users"), resource("stars", "/{repos.id}/{users.id}")],
            ["stars: is read for the records of repos and users, neither of which is an ancestor of the other"],
        ),
        (
            [REPOS, resource("issues", "/issues", add_fields={"repo": "{repos.id}"})],
            ["issues: {repos.id}: the request uses no field of repos; use one there"],
        ),
        (
            [REPOS, resource("issues", "/{repos.id}"), resource("notes", "/{issues.id}", params={"r": "{repos.name}"})],
            ["notes: {repos.name}: expected a field of issues; add it to those records by `add_fields`"],
        ),
        (
            [REPOS, resource("issues", "/{repos.id}", follows_parent=True)],
            ["issues: follows_parent: the request uses no resource with a cursor"],
        ),
        (
            [COUNTED, resource("steps", "/{builds.id}/steps", follows_parent=True)],
            ["steps: follows_parent: the resource has no cursor, and would be read for all records of its parent"],
        ),
        (
            [
                COUNTED,
                resource("steps", "/{builds.id}/steps", cursor=CountCursor("number"), follows_parent=True),
                resource("logs", "/{steps.id}/logs", follows_parent=True),
                resource("texts", "/{logs.id}", cursor=CountCursor("line"), follows_parent=True),
            ],
            [
                "logs: follows_parent: the resource has no cursor, and would be read for all records of its parent",
                "texts: follows_parent: no resource with a cursor is named in the request; name one",
            ],
        ),
    ],
)
def test_each_slip_has_its_resource_and_a_way_out(resources: list[resource], slips: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        RestSource("https://api.test", *resources)

    lines = str(error.value).splitlines()
    assert len(lines) == len(slips)
    assert all(line.startswith(slip) for line, slip in zip(lines, slips, strict=True)), lines


def test_urls_and_credentials_know_the_config_alone() -> None:
    with pytest.raises(
        ConfigError, match=r"url: found \{conf.url\}, expected \{config.NAME\}; did you mean 'config'\?"
    ):
        RestSource("{conf.url}", REPOS)
    with pytest.raises(ConfigError, match=r"auth: found \{repos.token\}, expected \{config.NAME\}"):
        RestSource("https://api.test", REPOS, auth=Bearer("{repos.token}"))


@pytest.mark.parametrize(
    ("token_url", "extra", "declared", "secret"),
    [
        ("{config.url}/token", {}, {}, set()),
        ("{config.url}/{config.tenant}/token", {"redirect_uri": "{config.tenant}"}, {}, set()),
        ("{config.url}/token", {"tenant": "{config.tenant}"}, {}, {"tenant"}),
        ("{config.tenant}/token", {"audience": "{config.tenant}"}, {}, {"tenant"}),
        ("{config.url}/{config.path_key}/token", {}, {}, {"path_key"}),
        ("{config.url}/token", {}, {"url": {"airbyte_secret": True}}, {"url"}),
    ],
)
def test_what_an_address_of_a_login_is_made_of_is_no_secret(
    token_url: str, extra: dict[str, str], declared: dict[str, JsonSchema], secret: set[str]
) -> None:
    auth = OAuth2(token_url, client_id="{config.client_id}", extra=extra)
    schema: Json = RestSource("https://api.test", REPOS, auth=auth, config=declared).config_schema

    names = {"client_id", *re.findall(r"config\.(\w+)", f"{token_url} {extra}")}
    assert {path for path, _ in secret_places(schema, dict.fromkeys(names, "value"))} == {"client_id", *secret}
    assert schema["properties"].keys() == names


def test_the_spec_has_what_is_named_and_marks_what_credentials_name() -> None:
    cursor = lambda config: CountCursor("version", start=config["first"])  # noqa: E731 - as an author writes it
    source = RestSource(
        "{config.url}",
        resource("repos", "/{config.owner}/repos", params={"size": "{config.size}"}, cursor=cursor),
        auth=Bearer("{config.token}"),
        config={"size": {"type": "integer", "default": 10}, "first": {"type": "integer"}},
    )

    assert source.config_schema["required"] == ["url", "owner", "token", "first"]
    assert source.config_schema["properties"] == {
        "url": {"type": "string"},
        "owner": {"type": "string"},
        "size": {"type": "integer", "default": 10},
        "token": {"type": "string", "airbyte_secret": True},
        "first": {"type": "integer"},
    }
