"""A connector that logs in, reads pages with a cursor, and posts of each user; and its API, which echoes secrets."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import parse_qs, quote, urlsplit

import orjson

from cdk import Json, JsonSchema, Partition, Slice, Source, Stream, list_partitions
from cdk.rest import Authenticator, CursorToken, Headers, HttpStream, OAuth2, Paginator, Request, Response

BASE = "https://blog.example"
SECRETS = {"client_secret": 'pa55+/"wörd&=', "api_key": "k3y-of-the-api", "signature": "s1gn/ature=="}
CONFIG: dict[str, Json] = {"base": BASE, "client_id": "client", **SECRETS}
ISSUED = {
    "access": "header-of-access.4cc355-payload.signature-of-access",
    "refresh": "r3fr35h-token-of-the-login",
    "session": "c00kie-session-of-the-login",
    "header": "h34der-token-of-each-answer",
}


class Posts(HttpStream):
    name = "posts"
    primary_key = "id"
    paginator: Paginator = CursorToken("next", param="token")
    records_path = ("posts",)

    @property
    def url_base(self) -> str:
        return str(self.config["base"])

    def authenticator(self) -> Authenticator:
        config = self.config
        return OAuth2(f"{self.url_base}/login", client_id=config["client_id"], client_secret=config["client_secret"])

    def path(self, slice: Slice) -> str:  # noqa: ARG002
        return f"/{quote(str(self.config['signature']), safe='')}/posts"

    def params(self, slice: Slice) -> Mapping[str, Json]:
        return {"api_key": self.config["api_key"], "author": slice.partition.get("author")}


class Comments(Posts):
    name = "comments"

    def partitions(self) -> Iterable[Partition]:
        return list_partitions("author", ["ann", "bob"])


class Blog(Source):
    name = "blog"
    stream_classes: Sequence[type[Stream]] = (Posts, Comments)
    config_schema: JsonSchema = {  # noqa: RUF012 - as an author writes it
        "type": "object",
        "properties": {
            "base": {"type": "string"},
            "client_id": {"type": "string"},
            **{name: {"type": "string", "airbyte_secret": True} for name in SECRETS},
        },
    }


class Api:
    """Pages of posts for each author; the last of those that are asked for by number is not full.

    echo: whether they have all that the API knows of the request. fields: what they have besides.
    """

    def __init__(self, pages: int = 3, posts: int = 2, *, echo: bool = False, **fields: Json) -> None:
        self.sent: list[Request] = []
        self._pages, self._posts, self._echoes, self._fields = pages, posts, echo, fields

    def send(self, request: Request) -> Response:
        self.sent.append(request)
        url = urlsplit(request.full_url)
        if url.path == "/login":
            return _answer(
                request, {"access_token": ISSUED["access"], "refresh_token": ISSUED["refresh"], "expires_in": 3600}
            )
        query = parse_qs(url.query)
        number = query.get("page")
        page = int((number or query.get("token", ["t-1"]))[0].removeprefix("t-"))
        echo = self._echo(request) if self._echoes else None
        author = query.get("author", ["all"])[0]
        posts = [
            {"id": f"{author}-{page}-{n}", "key": f"BLOG-{page}-{n}", "echo": echo, **self._fields}
            for n in range(self._posts - (number is not None and page == self._pages))
        ]
        return _answer(request, {"posts": posts, "next": f"t-{page + 1}" if page < self._pages else None})

    def _echo(self, request: Request) -> Json:
        """All that the API knows of the request, in every spelling it may have."""
        knows = [*SECRETS.values(), *ISSUED.values()]
        claims = base64.urlsafe_b64encode(orjson.dumps({"sub": knows, "n": 1})).decode()
        return {
            "plain": knows,
            "url": request.full_url,
            "authorization": request.headers["Authorization"],
            "jwt": f"eyJhbGciOiJub25lIn0.{claims.rstrip('=')}.c2ln",
            "deep": _b64(f"of {_b64(f'user {_b64(knows[1])}')}"),
            "quoted": [quote(one, safe="") for one in knows],
            "twice": [quote(quote(one, safe=""), safe="") for one in knows],
            "base64": [_b64(one) for one in knows],
            "basic": [_b64(f"user:{one}") for one in knows],
            "hex": [one.encode().hex() for one in knows],
            "json": orjson.dumps({"inner": knows}).decode(),
            "link": f"{BASE}/x?access_token=signed-link-nobody-saw&page=2",
            "password": 'a-password "of" a-record',
            "text": orjson.dumps({"password": 'a-password "of" a-record', "n": 1}).decode(),
        }


def _answer(request: Request, body: Json) -> Response:
    headers = Headers(
        {
            "Content-Type": "application/json",
            "Set-Cookie": f"sid={ISSUED['session']}; Path=/, theme=dark",
            "X-Session-Token": ISSUED["header"],
            "Link": f'<{request.full_url}>; rel="self"',
        }
    )
    return Response(200, headers, orjson.dumps(body), request.full_url, request)


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
