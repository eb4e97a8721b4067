import re

import pytest

from cdk import ConfigError, CountCursor, Json, JsonSchema
from cdk.base.secret_masking import secret_places
from cdk.rest import Bearer, HttpErrorHandler, LinkHeader, OAuth2, RestSource, resource

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
                "texts: follows_parent: the request uses no resource with a cursor; use one",
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


LINKS = r"an object such as `LinkHeader()`, or `SinglePage()` for a single page"
VALUES = "names with values: `{'state': 'open'}`"


@pytest.mark.parametrize(
    ("options", "slips"),
    [
        ({"paginator": "link"}, [f"paginator: found 'link', expected {LINKS}"]),
        ({"paginator": LinkHeader}, [f"paginator: found the class LinkHeader, expected {LINKS}"]),
        ({"decoder": "csv"}, ["decoder: found 'csv', expected an object such as `Jsonl()` or `CsvRows()`"]),
        ({"error_handler": HttpErrorHandler}, ["error_handler: found the class HttpErrorHandler, expected an object"]),
        ({"records_path": 3}, ["records_path: found 3, expected the names on the way to the records"]),
        ({"primary_key": 3}, ["primary_key: found 3, expected the name of a field, or a list of names"]),
        ({"headers": "s3cret"}, [f"headers: found a str, expected {VALUES}"]),
        (
            {"params": ["s3cret"], "paginator": 2},
            [f"params: found a list, expected {VALUES}", f"paginator: found 2, expected {LINKS}"],
        ),
    ],
)
@pytest.mark.parametrize("said_by", ["resource", "source"])
def test_options_of_another_type_are_refused_together(options: Json, slips: list[str], *, said_by: str) -> None:
    own, common = (options, {}) if said_by == "resource" else ({}, options)
    with pytest.raises(ConfigError) as error:
        RestSource("https://api.test", REPOS, resource("own", "/own", **own), **common)

    prefix = "own: " if said_by == "resource" else ""
    lines = str(error.value).splitlines()
    assert len(lines) == len(slips)
    assert all(any(line.startswith(f"{prefix}{slip}") for line in lines) for slip in slips), lines
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "slip"),
    [
        (
            {"cursor": "updated_at"},
            "cursor: found 'updated_at', expected a cursor such as `DatetimeCursor('updated_at'",
        ),
        ({"cursor": CountCursor}, "cursor: found the class CountCursor, expected a cursor such as"),
        ({"schema": {"type": "objct"}}, "schema: found {'type': 'objct'}, expected a JSON Schema of objects"),
        ({"follows_parent": "yes"}, "follows_parent: found 'yes', expected True or False"),
        ({"record_filter": ["open"]}, f"record_filter: found a list, expected {VALUES}"),
        ({"add_fields": "owner"}, f"add_fields: found a str, expected {VALUES}"),
        ({"path": None}, "path: found None, expected a string"),
    ],
)
def test_options_of_a_resource_alone_are_checked_as_well(options: Json, slip: str) -> None:
    with pytest.raises(ConfigError) as error:
        RestSource("https://api.test", resource(**{"name": "own", "path": "/own", **options}))

    assert str(error.value).startswith(f"own: {slip}")


@pytest.mark.parametrize(
    ("options", "slip"),
    [
        ({"auth": "s3cret"}, r"^auth: found a str, expected an authenticator such as `Bearer\(token\)`, or None$"),
        ({"auth": Bearer}, "^auth: found the class Bearer, expected an authenticator"),
        ({"budget": 10}, "^budget: found 10, expected a budget such as"),
        ({"config": ["size"]}, r"^config: found \['size'\], expected names with schemas"),
        ({"url": "api.test"}, "^url: found 'api.test', expected a URL that begins with `https://` or `http://`$"),
        ({"url": "ann:s3cret@api.test"}, "^url: found 'api.test', expected a URL"),
        ({"url": None}, "^url: found None, expected a URL"),
    ],
)
def test_options_of_a_source_alone_are_checked_as_well(options: Json, slip: str) -> None:
    with pytest.raises(ConfigError, match=slip):
        RestSource(options.pop("url", "https://api.test"), REPOS, **options)


@pytest.mark.parametrize("url", ["https://api.test", "HTTP://api.test", "{config.url}", "{config.url}/v1", ""])
def test_a_source_may_have_any_url_of_http_or_of_its_config(url: str) -> None:
    assert RestSource(url, REPOS).streams({"url": "https://api.test"})


def test_resources_in_a_list_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"^resource 1: found a list, expected `resource\(...\)`; give one after"):
        RestSource("https://api.test", [REPOS])  # type: ignore[arg-type] # the slip


@pytest.mark.parametrize("returned", ["updated_at", None, CountCursor])
def test_what_a_function_returns_for_a_cursor_is_checked_with_the_config(returned: Json) -> None:
    source = RestSource("https://api.test", resource("own", "/own", cursor=lambda _: returned))

    with pytest.raises(
        ConfigError, match=r"^own: cursor: the function returned something else: found .*, expected a c"
    ):
        source.streams({})


@pytest.mark.parametrize(
    ("option", "near"), [("records_pth", "'records_path'"), ("primry_key", "'primary_key'"), ("header", "'headers'")]
)
def test_an_option_that_is_nearly_one_is_refused_with_the_one(option: str, near: str) -> None:
    slip: Json = {option: "id"}
    with pytest.raises(
        ConfigError, match=rf"^resource\('own', {option}=...\): .* no such option; did you mean {near}\?"
    ):
        resource("own", "/own", **slip)
    with pytest.raises(
        ConfigError, match=rf"^RestSource\('https://api.test', {option}=...\): .* did you mean {near}\?"
    ):
        RestSource("https://api.test", REPOS, **slip)


def test_an_option_that_is_like_none_is_refused_with_all_there_are() -> None:
    slip: Json = {"zzz": 1}
    with pytest.raises(
        ConfigError, match=r"^resource\(zzz=...\): there is no such option; there is 'add_fields', 'body_json'"
    ):
        resource(**slip)


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
