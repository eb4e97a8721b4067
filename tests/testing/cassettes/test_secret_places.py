"""A secret of a config, anywhere in a request and however it is spelled there, is recorded as **** and replays."""

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote, quote_plus, urlencode

import orjson
from hypothesis import given
from hypothesis import strategies as st

from cdk import JsonSchema, Page, PagedStream, Slice, Source
from cdk.rest import Headers, Request, Response, Token
from cdk.rest.http.transport import outgoing
from cdk.testing import read
from cdk.testing.cassettes import Cassette, record
from cdk.testing.cassettes.interactions import save

BASE = "https://api.test"
FORM = "application/x-www-form-urlencoded"
JSON = "application/json"


def _post(kind: str, body: bytes) -> Request:
    return Request("POST", f"{BASE}/login", headers={"Content-Type": kind}, body=body)


PLACES: Mapping[str, Callable[[str], Request]] = {
    "parameter": lambda text: Request("GET", f"{BASE}/x", params={"who": text}),
    "query": lambda text: Request("GET", f"{BASE}/x?who={quote(text, safe='')}&page=1"),
    "plus query": lambda text: Request("GET", f"{BASE}/x?who={quote_plus(text)}&page=1"),
    "form": lambda text: _post(FORM, urlencode({"grant": "x", "who": text}).encode()),
    "percent form": lambda text: _post(FORM, urlencode({"who": text}, quote_via=quote).encode()),
    "charset form": lambda text: _post(f"{FORM}; charset=utf-8", urlencode({"who": text}).encode()),
    "form without a type": lambda text: Request("POST", f"{BASE}/login", body=urlencode({"who": text}).encode()),
    "json": lambda text: _post(JSON, orjson.dumps({"who": {"is": [text]}, "page": 1})),
    "spaced json": lambda text: _post(JSON, orjson.dumps({"who": text}, option=orjson.OPT_INDENT_2)),
    "header": lambda text: Request("GET", f"{BASE}/x", headers={"X-Who": quote(text)}),
    "words in a header": lambda text: Request("GET", f"{BASE}/x", headers={"X-Who": f"me {text.encode().hex()} you"}),
    "basic": lambda text: Request(
        "GET", f"{BASE}/x", headers={"Authorization": f"Basic {base64.b64encode(f'me:{text}'.encode()).decode()}"}
    ),
    "bearer": lambda text: Request("GET", f"{BASE}/x", headers={"Authorization": f"Bearer {text}"}),
    "path": lambda text: Request("GET", f"{BASE}/of/{quote(text, safe='')}/x"),
    "end of the path": lambda text: Request("GET", f"{BASE}/of/{quote(text, safe='')}"),
}


class Things(PagedStream):
    schema: JsonSchema = {"type": "object", "properties": {"id": {"type": "integer"}}}  # noqa: RUF012 - see below

    def read_page(self, slice: Slice, token: Token | None) -> Page:  # noqa: ARG002
        response = outgoing()(PLACES[str(self.config["place"])](str(self.config["secret"])))
        return Page(response.json()["items"], None)


class Api(Source):
    stream_classes = (Things,)
    config_schema: JsonSchema = {  # noqa: RUF012 - as an author writes it
        "type": "object",
        "properties": {"place": {"type": "string"}, "secret": {"type": "string", "airbyte_secret": True}},
    }


def send(request: Request) -> Response:
    headers = Headers({"Content-Type": JSON})
    return Response(200, headers, b'{"items": [{"id": 1}]}', request.full_url, request)


# As keys and passwords are: long enough to be found in other texts, of all that is escaped somewhere, and no word.
SECRETS = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"], exclude_characters="*", max_codepoint=0x2FFF),
    min_size=6,
    max_size=24,
).map(lambda text: f"s3~{text}~")


@given(st.sampled_from(sorted(PLACES)), SECRETS, SECRETS)
def test_a_secret_in_any_place_and_spelling_is_recorded_and_replays(place: str, secret: str, other: str) -> None:
    config = {"place": place, "secret": secret}
    with TemporaryDirectory() as folder:
        save(Path(folder) / "c.yaml", record(Api(), config, sends=send))
        cassette = Cassette(Path(folder) / "c.yaml")
        (interaction,) = cassette.recording.interactions

    assert secret not in repr(cassette.recording)
    for spelled in (quote(secret, safe=""), quote_plus(secret), base64.b64encode(secret.encode()).decode()):
        assert spelled not in interaction.url + repr(interaction.body) + repr(interaction.headers)
    # With what stands for the secret, with the secret, and with another one.
    for own in (cassette.config, config, {**config, "secret": other}):
        run = read(Api(), config=own, transport=cassette)
        assert (run.error, run.records) == (None, [{"id": 1}])
