"""`spark-cdk new`: what it writes works at once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import responses
import yaml

from cdk.sources.discovery import find_source
from tests.cli.conftest import CommandLine

SECRET = "hunter2-4711"

PROJECT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("language", "option"), [("python", "--connector pet_python.py"), ("yaml", "--manifest-path manifest.yaml")]
)
def test_its_files_are_without_mistakes(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: str, option: str
) -> None:
    name = f"pet-{language}"
    written = cli("new", name, f"--{language}")
    monkeypatch.chdir(tmp_path / name)
    Path("config.json").write_text(Path("config.example.json").read_text())

    validated = cli("validate", "config.json", "pipeline.yaml", *option.split())

    assert (written.code, validated.code) == (0, 0), validated.lines
    assert written.lines[-1] == f"next: cd {name} && pytest; README.md describes the next steps"


def test_its_tests_pass_at_once(cli: CommandLine) -> None:
    for language in ("python", "yaml"):
        cli("new", f"in-{language}", f"--{language}")

    tests = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-c", "in-python/pyproject.toml", "in-python/tests", "in-yaml/tests"),
        ],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert tests.returncode == 0, tests.stdout
    assert "36 passed" in tests.stdout


@pytest.mark.parametrize("language", ["python", "yaml"])
def test_what_it_writes_is_whole(cli: CommandLine, tmp_path: Path, language: str) -> None:
    listed = cli("new", "crm", f"--{language}", "--folder", "here").lines[:-1]
    files = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}

    assert sorted(listed) == sorted(files)
    assert [name for name, text in files.items() if "@module@" in text or "@name@" in text or "@Class@" in text] == []
    for name, text in files.items():
        if name.endswith(".json"):
            json.loads(text)
        if name.endswith((".yaml", ".yml")):
            yaml.safe_load(text)
    assert files["here/pipeline.yaml"].startswith("# yaml-language-server: $schema=schemas/pipeline.schema.json\n")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Shop", "expected lower-case letters"),
        ("shop/x", "expected lower-case letters"),
        ("json", "is taken by a module"),
        ("class", "is taken by a module"),
        ("full", "full: the folder has files"),
    ],
)
def test_a_name_that_cannot_be_one_is_refused_and_nothing_written(
    cli: CommandLine, tmp_path: Path, name: str, why: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_text("")

    ran = cli("new", name)

    assert (ran.code, why in ran.stderr) == (1, True)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["a"]


def test_a_connector_that_was_found_takes_no_name_away(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    cli("new", "crm-of-a-folder")
    before = len(sys.path)
    for _ in range(2):
        find_source(str(tmp_path / "crm-of-a-folder" / "crm_of_a_folder.py"))

    assert cli("new", "crm-of-a-folder", "--folder", "elsewhere").code == 0
    assert len(sys.path) == before + 1


OPENAPI = """
openapi: 3.0.3
info: {title: Pets, version: "2"}
servers: [{url: https://pets.example.com/v1}]
components:
  securitySchemes: {login: {type: http, scheme: bearer}}
security: [{login: []}]
paths:
  /pets:
    get:
      parameters: [{name: cursor, in: query, schema: {type: string}}]
      responses: {200: {content: {application/json: {schema: {properties: {
        data: {type: array, items: {properties: {id: {type: string}, born: {type: string, format: date}}}},
        next_cursor: {type: string}}}}}}}
  /pets/{petId}:
    get: {responses: {200: {content: {application/json: {schema: {type: object}}}}}}
  /pets/{petId}/visits:
    get:
      parameters: [{name: page, in: query, schema: {type: integer}}]
      responses: {200: {content: {application/json: {schema: {type: array, items: {type: object}}}}}}
"""


def test_a_connector_drafted_from_a_description_says_what_it_guesses_and_passes_its_tests(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("openapi.yaml").write_text(OPENAPI)

    written = cli("new", "pet-api", "--from-openapi", "openapi.yaml")
    monkeypatch.chdir(tmp_path / "pet-api")
    Path("config.json").write_text(Path("config.example.json").read_text())
    validated = cli("validate", "manifest.yaml", "config.json", "pipeline.yaml")
    tests = pytest.main(["-q", "-p", "no:cacheprovider", "-c", "pytest.ini", "--rootdir", ".", "tests"])

    readme = Path("README.md").read_text()
    guesses = [line for line in written.lines if line.startswith("- ")]
    assert (written.code, validated.code, tests) == (0, 0, 0)
    assert sorted(line.partition(". Check:")[0] for line in guesses if "`pets_visits`" in line) == [
        "- a substream: `petId` of the path is `id` of `pets`. Why: the path's parameter `petId` names it",
        "- no primary key. Why: no field is named like one",
        "- pagination: page number in `page`, the first is 1, up to an empty page. Why: their names",
    ]
    assert yaml.safe_load(Path("pipeline.yaml").read_text())["incremental_write_mode"] == "append_dedup"
    assert guesses[-1] == "- it reads one object by its key: `/pets/{petId}`"
    assert all(line in readme for line in guesses)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("- 1", "is not an OpenAPI description: found a list"),
        ("{", "is not JSON"),
        ("a: [", "is not YAML"),
        ('{"openapi": "3.0.0", "paths": {"/a": {"post": {}}}}', "there is no GET"),
    ],
)
def test_what_is_no_description_is_refused_and_nothing_written(cli: CommandLine, text: str, why: str) -> None:
    Path("openapi").write_text(text)

    ran = cli("new", "pets", "--from-openapi", "openapi")

    assert (ran.code, why in ran.stderr, Path("pets").exists()) == (1, True, False), ran.stderr
    assert "openapi" in ran.stderr


def test_a_curl_command_becomes_a_stream_and_a_second_one_another(cli: CommandLine, tmp_path: Path) -> None:
    first = cli("new", "shop-api", "--from-curl", "curl -H 'X-Key: hunter2' 'https://api.example.com/orders?page=1'")
    second = cli("new", "shop-api", "--from-curl", "curl https://api.example.com/users")

    manifest = yaml.safe_load((tmp_path / "shop-api" / "manifest.yaml").read_text())
    readme = (tmp_path / "shop-api" / "README.md").read_text()
    assert (first.code, second.code) == (0, 0)
    assert list(manifest["definitions"]["streams"]) == ["orders", "users"]
    assert ("(`orders`)" in readme, "(`users`)" in readme) == (True, True)
    assert "hunter2" not in "".join([*first.lines, first.stderr])
    assert "new: users" in second.lines


def test_several_curl_commands_are_several_streams(cli: CommandLine, tmp_path: Path) -> None:
    commands = ["curl https://api.example.com/a/items", "curl https://api.example.com/b/items"]
    written = cli("new", "shop-api", "--from-curl", commands[0], "--from-curl", commands[1])
    again = cli("new", "shop-api", "--from-curl", "curl https://api.example.com/c/items")

    manifest = yaml.safe_load((tmp_path / "shop-api" / "manifest.yaml").read_text())
    assert (written.code, again.code) == (0, 0)
    assert list(manifest["definitions"]["streams"]) == ["items", "b_items", "c_items"]


@responses.activate
def test_a_curl_command_that_is_sent_becomes_a_connector_that_is_complete(cli: CommandLine, tmp_path: Path) -> None:
    responses.get("https://api.test/users", json={"users": [{"id": n, "name": f"n{n}"} for n in range(3)]})

    ran = cli("new", "shop-api", "--from-curl", f"curl -H 'X-Key: {SECRET}' https://api.test/users", "--send")

    stream = yaml.safe_load((tmp_path / "shop-api" / "manifest.yaml").read_text())["definitions"]["streams"]["users"]
    assert ran.code == 0, ran.stderr
    assert stream["primary_key"] == "id"
    assert stream["retriever"]["record_selector"]["extractor"]["field_path"] == ["users"]
    assert {call.request.headers["X-Key"] for call in responses.calls} == {SECRET}
    assert SECRET not in "".join([*ran.lines, ran.stderr])


@responses.activate
def test_a_curl_command_whose_request_fails_writes_nothing(cli: CommandLine, tmp_path: Path) -> None:
    responses.get("https://api.test/users", status=401, json={"message": f"{SECRET} has expired"})

    ran = cli("new", "shop-api", "--from-curl", f"curl -H 'X-Key: {SECRET}' https://api.test/users", "--send")

    assert (ran.code, (tmp_path / "shop-api").exists()) == (1, False)
    assert "401" in ran.stderr
    assert SECRET not in "".join([*ran.lines, ran.stderr])


def test_there_is_nothing_to_send_without_a_curl_command(cli: CommandLine) -> None:
    ran = cli("new", "shop-api", "--yaml", "--send")

    assert (ran.code, "--send sends the request of --from-curl; pass both" in ran.stderr) == (2, True)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--yaml", "--python"), "--python and --yaml exclude each other"),
        (("--python", "--from-curl", "curl https://a"), "draft a manifest; omit --python"),
    ],
)
def test_a_connector_is_written_in_one_language(
    cli: CommandLine, tmp_path: Path, options: tuple[str, ...], text: str
) -> None:
    ran = cli("new", "shop-api", *options)

    assert (ran.code, text in ran.stderr) == (2, True)
    assert not (tmp_path / "shop-api").exists()


def test_two_sources_of_a_draft_exclude_each_other(cli: CommandLine) -> None:
    ran = cli("new", "shop-api", "--from-curl", "curl https://a", "--from-openapi", "x.yaml")

    assert (ran.code, "exclude each other" in ran.stderr) == (2, True)
