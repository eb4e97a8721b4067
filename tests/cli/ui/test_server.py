"""`spark-cdk ui`: what its pages show, and to whom."""

import html
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import responses
from starlette.testclient import TestClient

from cdk.base.errors import ConfigError
from cdk.cli.app import run
from cdk.cli.ui import server
from cdk.cli.ui.folder_files import folder_files
from cdk.cli.ui.server import application
from cdk.cli.workspace import shown_error
from tests.cli.ui.large_pipeline import put_many
from tests.cli.ui.shop_folder import MANIFEST, PIPELINE, SECRET, put_shop
from tests.spark.object_store import BUCKET, object_store
from tests.spark.object_store import SECRET as STORE_SECRET

TOKEN = "letmein"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return put_shop(tmp_path, monkeypatch)


@pytest.fixture
def page(folder: Path) -> TestClient:
    client = TestClient(application(folder, TOKEN, trusted=True), base_url="http://127.0.0.1:1")
    client.get(f"/?token={TOKEN}")
    return client


def test_only_who_brings_the_token_sees_a_page(folder: Path) -> None:
    client = TestClient(
        application(folder, TOKEN, trusted=False), base_url="http://127.0.0.1:1", follow_redirects=False
    )

    for path in ("/", "/static/page.css", "/?token=wrong", "/?token=%C3%A4"):
        assert client.get(path).status_code == 403
    let_in = client.get(f"/?token={TOKEN}")
    assert (let_in.status_code, let_in.headers["location"]) == (303, "/")
    assert {"HttpOnly", "SameSite=strict"} <= set(let_in.headers["set-cookie"].split("; "))
    shown = client.get("/")
    assert shown.status_code == 200
    assert shown.headers["content-security-policy"].startswith("default-src 'none'; style-src 'self';")
    assert client.get("/", headers={"host": "rebound.example.com:1"}).status_code == 400


def test_a_pipeline_shows_its_tables_runs_receipts_and_errors(page: TestClient) -> None:
    assert '<a href="/pipeline?file=pipeline.yaml">shop</a>' in page.get("/").text

    shown = page.get("/pipeline?file=pipeline.yaml").text

    assert 'href="/stream?file=pipeline.yaml&amp;stream=orders"' in shown
    assert "failed" in shown
    assert "no &lt;i&gt;****&lt;/i&gt;" in shown
    rows = re.findall(r"<tr>\s*<td><code>\w{8}</code>.*?</tr>", shown, re.DOTALL)
    resumed, failed = (re.findall(r"<td.*?>(.*?)</td>", row) for row in rows)
    assert failed[3] == "failed"
    assert re.sub(r"<br><span.*?</span>", "", failed[4]) == "broken: failed<br>visits: failed<br>orders: done"
    assert failed[5] == failed[6]
    assert failed[7:] == ["4", "4", "0"]
    assert (resumed[3], resumed[4], resumed[7:]) == ("done", "visits", ["3", "3", "0"])
    assert SECRET not in shown


def test_a_stream_shows_where_its_partitions_stand_and_how_they_came_there(page: TestClient) -> None:
    shown = page.get("/stream?file=pipeline.yaml&stream=orders").text

    assert "2 partitions" in shown
    assert shown.count('<rect x="') == 2
    assert 'class="heat5"><title>{&#34;shop&#34;:&#34;a&#34;}: at 5</title>' in shown
    # Each partition has a commit of its own, or both have one.
    assert re.search(r"{&#34;shop&#34;:&#34;a&#34;} at: nothing → 5(</td>|\n)", shown)
    assert "older commits" not in shown


def test_an_interrupted_run_and_the_one_that_resumed_it_are_drawn_as_a_timeline(page: TestClient) -> None:
    shown = page.get("/stream?file=pipeline.yaml&stream=visits").text

    lanes = re.findall(r"<li>[\d :-]{19} <code>\w{8}</code> (.*)</li>", shown)
    assert lanes == [
        "1 commit, 2 rows, failed at state 1: the door is shut, says ****",
        "resumed from state 1, 1 commit, 3 rows, complete at state 2",
    ]
    assert re.search(r'<path class="resume" d="M\d+,\d+ V\d+ H\d+"/>', shown)


def test_what_people_do_to_a_state_is_drawn_apart_from_the_runs(page: TestClient) -> None:
    assert run(["state", "reset", "pipeline.yaml", "--stream", "visits"]) == 0

    shown = page.get("/stream?file=pipeline.yaml&stream=visits").text

    lanes = re.findall(r"<li>[\d :-]{19} (.*)</li>", shown)
    assert [lane.rpartition(", ")[2] for lane in lanes[1:]] == ["complete at state 2", "reset"]


@pytest.mark.parametrize("reported", [True, False])
def test_runs_come_by_pages(page: TestClient, folder: Path, monkeypatch: pytest.MonkeyPatch, *, reported: bool) -> None:
    assert run(["sync", "pipeline.yaml", "--stream", "broken"]) == 1
    if not reported:
        shutil.rmtree(folder / "tables" / "_cdk" / "shop.runs")
    monkeypatch.setattr(server, "_RUNS", 1)
    pages = [page.get("/pipeline?file=pipeline.yaml").text]
    while link := re.search(r'href="(/pipeline\?[^"]*;before=[^"]*)">older runs', pages[-1]):
        pages.append(page.get(link[1].replace("&amp;", "&")).text)

    listed = [re.findall(r"<td><code>(\w{8})</code></td>", text) for text in pages]
    syncs = [sync for each in listed for sync in each]
    assert len(syncs) == len(set(syncs)) == (3 if reported else 2)
    assert max(map(len, listed)) == 1


def test_an_address_may_have_any_numbers(page: TestClient) -> None:
    numbers = ["", "0", "-1", "-9", "--5", "5-", "1.5", "²", "٣", "9" * 30, "9" * 5000, "1_0", "%00", "nan"]
    times = ["2024-01-02", "0001-01-01T00:00:00%2B14:00", "9999-12-31T23:59:59-14:00", "now"]
    lists = [*numbers, *(f"{number}.1.{number}" for number in numbers)]
    addresses = [
        *(f"/stream?stream=visits&before={number}" for number in numbers),
        *(f"/pipeline?runs={each}&before={time}" for each in lists for time in times),
    ]

    failed = {address[:80] for address in addresses if page.get(f"{address}&file=pipeline.yaml").status_code != 200}

    assert failed == set()


def test_a_test_read_shows_requests_records_and_schema_beside_each_other(page: TestClient) -> None:
    chosen = page.get("/build?connector=shop.py&config=config.json").text
    assert re.findall(
        r'<a href="/build\?connector=shop.py&amp;config=config.json&amp;stream=(\w+)#answer">', chosen
    ) == [*("orders", "broken", "visits")]

    shown = page.get("/build?connector=shop.py&config=config.json&stream=orders").text
    failed = page.get("/build?connector=shop.py&config=config.json&stream=broken").text

    assert "GET https://api.test/orders" in shown
    assert "&lt;b&gt;for ****&lt;/b&gt;" in shown
    assert "&#34;Authorization&#34;: &#34;****&#34;" in shown
    assert "&#34;type&#34;: &#34;integer&#34;" in shown
    assert '<p role="alert" class="error">' in failed
    assert "0 records, the read failed; nothing was written" in failed
    assert SECRET not in shown + failed


def test_beside_each_button_that_calls_an_api_stands_that_it_may_take_long(page: TestClient, manifest: Path) -> None:
    for query, ids in {
        "": ["read-waits", "draft-waits"],
        f"connector=api/{manifest.name}": ["read-waits"],
        f"connector=api/{manifest.name}&stream=none": ["read-waits", "save-waits"],
    }.items():
        shown = page.get(f"/build?{query}").text

        assert re.findall(r'<button aria-describedby="([\w-]+)">', shown) == ids
        assert re.findall(r'<small id="([\w-]+)">An API that fails, or tells to wait, is asked again: ', shown) == ids


def test_what_an_api_echoes_of_an_env_file_is_masked_though_the_config_does_not_use_it(
    page: TestClient, folder: Path
) -> None:
    with (folder / ".env").open("a") as file:
        file.write("\nOTHER=unused-4711\n")
    (folder / "shop.py").write_text((folder / "shop.py").read_text().replace("<b>for", "<b>unused-4711"))

    shown = page.get("/build?connector=shop.py&config=config.json&stream=orders").text

    assert "&lt;b&gt;**** ****&lt;/b&gt;" in shown
    assert "unused-4711" not in shown


_SAME = {"sec-fetch-site": "same-origin"}


@pytest.fixture
def manifest(folder: Path) -> Path:
    path = folder / "api" / "manifest.yaml"
    path.parent.mkdir()
    path.write_text(MANIFEST)
    path.chmod(0o640)
    return path


def _opened(page: TestClient, **others: str) -> dict[str, str]:
    """The fields of the form with the manifest, as a browser sends them."""
    shown = page.get("/build", params={"connector": "api/manifest.yaml"}).text
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', shown))
    text = re.search(r"<textarea name=\"text\".*?>\n(.*?)</textarea>", shown, re.DOTALL)
    assert text is not None
    return {**hidden, "text": html.unescape(text[1]).replace("\n", "\r\n"), **others}


def test_a_manifest_is_saved_where_nothing_is_wrong_with_it(page: TestClient, manifest: Path) -> None:
    form = _opened(page)

    wrong = page.post(
        "/save", data={**form, "text": form["text"].replace("path: items", "path: [items]")}, headers=_SAME
    )

    assert "It was not saved" in wrong.text
    assert "line 11 streams[0].retriever.requester.path: " in wrong.text
    assert "path: [items]}" in wrong.text
    assert (manifest.read_text(), [*manifest.parent.iterdir()]) == (MANIFEST, [manifest])

    right = page.post(
        "/save",
        data={**form, "text": form["text"].replace("name: items", "name: goods").replace("[items]", "[goods]")},
        headers=_SAME,
    )

    assert right.url.path == "/build"
    assert ">goods</a>" in right.text
    assert manifest.read_text() == MANIFEST.replace("name: items", "name: goods").replace("[items]", "[goods]")
    assert manifest.stat().st_mode & 0o777 == 0o640
    assert [*manifest.parent.iterdir()] == [manifest]


def test_a_manifest_that_others_have_changed_meanwhile_stays(page: TestClient, manifest: Path) -> None:
    form = _opened(page)
    manifest.write_text(MANIFEST + "# by hand\n")

    refused = page.post("/save", data={**form, "text": form["text"] + "# mine"}, headers=_SAME)

    assert "has changed since it was opened here" in refused.text
    assert "# mine" in refused.text
    assert manifest.read_text() == MANIFEST + "# by hand\n"


def test_a_secret_of_a_manifest_is_not_replaced_by_its_mask(page: TestClient, manifest: Path) -> None:
    secret = "a-planted-one-4711"
    text = MANIFEST.replace("path: items", f"authenticator: {{type: BearerAuthenticator, api_token: {secret}}}")
    manifest.write_text(text)
    form = _opened(page)

    refused = page.post("/save", data=form, headers=_SAME)

    assert secret not in form["text"] + refused.text
    assert "line 11: found **** in place of a secret of the file, expected an expression" in refused.text
    assert manifest.read_text() == text

    expression = form["text"].replace("****", "\"{{ config['key'] }}\"")
    assert ">items</a>" in page.post("/save", data={**form, "text": expression}, headers=_SAME).text


@pytest.mark.parametrize(
    ("plain", "why"),
    [
        (
            'items, authenticator: {type: BearerAuthenticator, api_token: "zz-4711"}',
            ".authenticator.api_token: found a credential",
        ),
        (
            'items, authenticator: {type: BearerAuthenticator, api_token: "key+/4711"}',
            ".authenticator.api_token: found a credential",
        ),
        ("items, request_headers: {X-Shop: 'key+/4711'}", ": found a secret"),
        ("items?key=key%2B%2F4711", ": found a secret"),
        ("items  # key+/4711", ": found a secret"),
    ],
)
def test_a_secret_in_plain_is_not_saved(page: TestClient, manifest: Path, plain: str, why: str) -> None:
    spec = "spec: {type: Spec, connection_specification: {properties: {code: {type: string, airbyte_secret: true}}}}\n"
    manifest.write_text(MANIFEST.replace("path: items}", "path: items\n    }") + spec)
    (manifest.parent / "config.json").write_text('{"code": "key+/4711"}')
    form = _opened(page, config="api/config.json")
    before = manifest.read_text()

    refused = page.post(
        "/save", data={**form, "text": form["text"].replace("path: items", f"path: {plain}")}, headers=_SAME
    )

    assert "It was not saved" in refused.text
    assert re.search(rf"<li>line 11[^:<]*{re.escape(why)}, expected an expression; write {{{{ config", refused.text)
    assert (manifest.read_text(), sorted(manifest.parent.iterdir())) == (
        before,
        sorted([manifest, manifest.parent / "config.json"]),
    )
    assert not any(secret in refused.text for secret in ("zz-4711", "key+/4711", "key%2B%2F4711"))
    assert page.post("/save", data={**form, "text": form["text"] + "# mine"}, headers=_SAME).url.path == "/build"


def test_what_the_language_calls_the_name_of_a_secret_is_saved(page: TestClient, manifest: Path) -> None:
    form = _opened(page)
    named = "path: items, authenticator: {type: OAuthAuthenticator, client_secret_name: app_secret,"
    named += " grant_type: client_credentials, token_refresh_endpoint: 'http://127.0.0.1:9/',"
    named += " client_id: \"{{ config['id'] }}\", client_secret: \"{{ config['secret'] }}\"}"

    saved = page.post("/save", data={**form, "text": form["text"].replace("path: items", named)}, headers=_SAME)

    assert "client_secret_name: app_secret" in saved.text
    assert "client_secret_name: app_secret" in manifest.read_text()


def test_half_a_character_is_shown_as_an_escape(page: TestClient, folder: Path) -> None:
    (folder / "halves.py").write_text(
        "from cdk import Stream\nclass Halves(Stream):\n    def read_records(self, slice):\n"
        r'        yield {"id": "half \ud83d", "\ude00": 1}'
    )

    shown = page.get("/build?connector=halves.py&stream=halves")

    assert (shown.status_code, r"half \\ud83d" in shown.text, r"\ude00" in shown.text) == (200, True, True)


def test_a_manifest_that_cannot_be_read_is_mended_on_the_page(page: TestClient, manifest: Path) -> None:
    manifest.write_text(MANIFEST.replace("type: SimpleRetriever", "type: SimpelRetriever"))

    form = _opened(page)

    assert "did you mean &#39;SimpleRetriever&#39;?" in page.get("/build?connector=api/manifest.yaml").text
    mended = form["text"].replace("Simpel", "Simple")
    assert ">items</a>" in page.post("/save", data={**form, "text": mended}, headers=_SAME).text


def test_a_connector_is_drafted_of_a_curl_command(page: TestClient, folder: Path) -> None:
    form = {"name": "water", "openapi": "", "curl": "curl -H 'X-Api-Key: planted-4711' http://127.0.0.1:9/v1/items"}

    drafted = page.post("/draft", data=form, headers=_SAME)
    again = page.post("/draft", data={**form, "name": "."}, headers=_SAME)
    neither = page.post("/draft", data={**form, "curl": ""}, headers=_SAME)

    assert drafted.url.path == "/build"
    assert "path: /v1/items" in drafted.text
    assert (folder / "water" / "manifest.yaml").is_file()
    assert "water/config.json: " in drafted.text
    assert "planted-4711" not in drafted.text + again.text
    assert again.status_code == 400
    assert "found neither a curl command nor an OpenAPI description" in neither.text


@responses.activate
def test_a_curl_command_that_is_sent_drafts_a_connector_that_is_complete(page: TestClient) -> None:
    responses.get("https://api.test/v1/items", json={"items": [{"id": 1}, {"id": 2}]})
    form = {"name": "water", "openapi": "", "curl": "curl https://api.test/v1/items", "send": "on"}

    drafted = page.post("/draft", data=form, headers=_SAME)

    assert "field_path: [items]" in drafted.text
    assert "primary_key: id" in drafted.text


@responses.activate
def test_a_curl_command_whose_request_fails_is_there_again(page: TestClient, folder: Path) -> None:
    responses.get("https://api.test/v1/items", status=403)
    form = {"name": "water", "openapi": "", "curl": "curl https://api.test/v1/items", "send": "on"}

    failed = page.post("/draft", data=form, headers=_SAME)

    assert "403" in failed.text
    assert 'name="send" checked' in failed.text
    assert not (folder / "water").exists()


@pytest.mark.parametrize("site", [{}, {"sec-fetch-site": "same-site"}, {"sec-fetch-site": "cross-site"}])
def test_forms_of_other_sites_and_ports_change_nothing(page: TestClient, manifest: Path, site: dict[str, str]) -> None:
    form = _opened(page)

    assert page.post("/save", data={**form, "text": form["text"] + "# theirs"}, headers=site).status_code == 403
    assert page.post("/draft", data={"name": "x"}, headers=site).status_code == 403
    assert manifest.read_text() == MANIFEST


def test_a_manifest_that_is_saved_shows_its_warnings(page: TestClient, manifest: Path) -> None:
    form = _opened(page)

    saved = page.post("/save", data={**form, "text": form["text"].replace("path: items", "pth: items")}, headers=_SAME)

    assert "requester.pth: warning: unknown field" in saved.text
    assert "pth: items" in manifest.read_text()


def test_no_form_leads_out_of_the_folder(page: TestClient, folder: Path) -> None:
    (folder.parent / "manifest.yaml").write_text(MANIFEST)
    form = {"connector": "../manifest.yaml", "version": "", "text": MANIFEST}

    outside = page.post("/save", data=form, headers=_SAME)
    new = page.post("/draft", data={"name": "../x", "openapi": "", "curl": "curl http://a.test/b"}, headers=_SAME)

    assert "is outside of the folder" in outside.text
    assert "is outside of the folder" in new.text


def test_what_cannot_be_shown_says_why(page: TestClient, folder: Path) -> None:
    (folder.parent / "other.yaml").write_text(PIPELINE)
    strict = TestClient(application(folder, TOKEN, trusted=False), base_url="http://127.0.0.1:1")
    strict.get(f"/?token={TOKEN}")

    for path, why in {
        "/pipeline?file=../other.yaml": "is outside of the folder",
        "/pipeline": "the address lacks &#39;file&#39;; start from the list of pipelines",
        "/stream?file=pipeline.yaml&stream=order": "did you mean &#39;orders&#39;",
    }.items():
        answer = page.get(path)
        assert (answer.status_code, why in answer.text) == (400, True), path
    assert "--allow-custom-code" in strict.get("/build?connector=shop.py").text


def test_a_report_that_was_cut_takes_no_run_away(page: TestClient, folder: Path) -> None:
    for report in (folder / "tables" / "_cdk" / "shop.runs").iterdir():
        report.write_bytes(report.read_bytes()[:300])

    answer = page.get("/pipeline?file=pipeline.yaml")

    assert answer.status_code == 200
    assert len(re.findall(r"<td><code>\w{8}</code></td>", answer.text)) == 2


def test_a_table_that_cannot_be_read_takes_nothing_else_away(page: TestClient, folder: Path) -> None:
    for log in (folder / "tables" / "visits" / "_delta_log").iterdir():
        log.write_text("{")

    shown = page.get("/pipeline?file=pipeline.yaml").text

    assert 'href="/stream?file=pipeline.yaml&amp;stream=orders"' in shown
    assert "stream=visits" not in shown
    assert "fails before it reads: the table cannot be read" in shown
    assert len(re.findall(r"<td><code>\w{8}</code></td>", shown)) == 2


def test_where_no_table_is_left_the_page_says_so(page: TestClient, folder: Path) -> None:
    shutil.rmtree(folder / "tables")

    answer = page.get("/pipeline?file=pipeline.yaml")

    assert answer.status_code == 200
    assert "run a sync, which creates it" in answer.text


def test_a_pipeline_that_is_broken_is_listed_with_its_error_beside_the_others(page: TestClient, folder: Path) -> None:
    (folder / "cut.yaml").write_text(PIPELINE[: PIPELINE.rindex("}")])
    (folder / "wrong.yaml").write_text(PIPELINE.replace("name: shop", "nam: shop"))
    (folder / "raises.yaml").write_text(PIPELINE.replace("shop.py", "raises.py"))
    (folder / "raises.py").write_text("raise RuntimeError('on import')")
    (folder / "notes.yaml").write_text("a source: {of notes\n")

    answer = page.get("/")

    rows = re.findall(r"<tr>\s*<td.*?>(.*?)</td><td>(.*?)</td>", answer.text)
    assert answer.status_code == 200
    assert [file for first, file in rows if first == "cannot be read"] == ["cut.yaml", "wrong.yaml"]
    assert ('<a href="/pipeline?file=pipeline.yaml">shop</a>', "pipeline.yaml") in rows
    assert [file for _, file in rows] == ["cut.yaml", "pipeline.yaml", "raises.yaml", "wrong.yaml"]


def test_a_partition_is_found_by_its_json_or_the_beginning_of_it(page: TestClient) -> None:
    for text in ('{"shop": "b"}', '{"shop":"b'):
        shown = page.get("/stream", params={"file": "pipeline.yaml", "stream": "orders", "from": text}).text

        assert shown.count("<li>{&#34;shop&#34;:&#34;b&#34;}: at 5</li>") == 1
        assert "<li>{&#34;shop&#34;:&#34;a&#34;}" not in shown
        assert "the ones before" in shown


def test_a_pipeline_looks_at_no_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_many(put_shop(tmp_path, monkeypatch), partitions=20_000, runs=30)
    for layer in (tmp_path / "tables" / "orders" / "_cdk_state" / "shop").glob("*.layer"):
        layer.write_bytes(bytes(layer.stat().st_size))
    client = TestClient(application(tmp_path, TOKEN, trusted=True), base_url="http://127.0.0.1:1")
    client.get(f"/?token={TOKEN}")

    shown = client.get("/pipeline?file=pipeline.yaml").text

    assert "stream=orders" in shown
    assert 'role="alert"' not in shown
    assert "it was changed or truncated" in client.get("/stream?file=pipeline.yaml&stream=orders").text


def test_the_streams_of_a_store_are_listed_with_their_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with object_store() as store:
        target = f"{{path: 's3://{BUCKET}/shop', storage: {json.dumps(dict(store.storage))}}}"
        folder = put_shop(tmp_path, monkeypatch, target)
        client = TestClient(application(folder, TOKEN, trusted=True), base_url="http://127.0.0.1:1")
        client.get(f"/?token={TOKEN}")

        shown = client.get("/pipeline?file=pipeline.yaml").text

        assert re.findall(r'href="/stream\?file=pipeline.yaml&amp;stream=(\w+)"', shown) == [
            "orders",
            "broken",
            "visits",
        ]
        assert len(re.findall(r"<td><code>\w{8}</code></td>", shown)) == 2
        assert "2 partitions" in client.get("/stream?file=pipeline.yaml&stream=orders").text
        assert STORE_SECRET not in shown


def test_files_that_are_none_and_hidden_ones_are_not_listed(tmp_path: Path) -> None:
    (tmp_path / ".#pipeline.yaml").symlink_to("somebody@host.1")
    (tmp_path / "nowhere.yaml").symlink_to("missing.yaml")
    (tmp_path / ".hidden.yaml").write_text(PIPELINE)
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)

    files = folder_files(tmp_path)

    assert (files.pipelines, files.manifests) == ([Path("pipeline.yaml")], [])


def test_an_error_names_the_stream_or_the_line_of_the_connectors_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = ["from cdk import Source", "class Shop(Source):", "    def streams(self, config):", "        config['key']"]
    (tmp_path / "lacks_key.py").write_text("\n".join(lines))
    client = TestClient(application(tmp_path, TOKEN, trusted=True), base_url="http://127.0.0.1:1")
    client.get(f"/?token={TOKEN}")

    answer = client.get("/build?connector=lacks_key.py")

    assert (answer.status_code, "KeyError: &#39;key&#39; (line 4 of " in answer.text) == (500, True)
    assert shown_error(ConfigError("is wrong", stream="orders")) == "orders: is wrong"


def test_a_secret_that_a_connector_receives_while_it_lists_its_streams_is_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = ["from cdk import Source", "class Shop(Source):", "    def streams(self, config):"]
    lines += ["        self.events.learned('session-4711')", "        raise ValueError('refused session-4711')"]
    (tmp_path / "logs_in.py").write_text("\n".join(lines))
    client = TestClient(application(tmp_path, TOKEN, trusted=True), base_url="http://127.0.0.1:1")
    client.get(f"/?token={TOKEN}")

    shown = client.get("/build?connector=logs_in.py").text

    assert ("refused ****" in shown, "session-4711" in shown) == (True, False)


def test_without_its_packages_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)

    assert run(["ui"]) == 1
    assert capsys.readouterr().err == "Error: its packages are missing: pip install 'spark-cdk[ui]'\n"
