"""Two servers on 127.0.0.1: an API that answers as it is told, and a stranger that must not learn its secrets."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import ThreadingHTTPServer

from cdk.base.secret_masking import Secrets
from tests.local_server import QuietHandler, answering

Answer = tuple[int, Mapping[str, str], bytes]


class Handler(QuietHandler):
    server: "Told"

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.heard.append(f"{self.requestline}\n{self.headers}\n{body.decode()}")
        status, headers, content = self.server.answers.get(self.path.partition("?")[0], (200, {}, b'{"data": []}'))
        self.answer(status, content, headers)

    do_POST = do_GET  # noqa: N815 - the name that http.server calls


class Told(ThreadingHTTPServer):
    """answers: status, headers and body by path. heard: each request, as text."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, Answer] = {}
        self.heard: list[str] = []
        self.host = f"127.0.0.1:{self.server_address[1]}"
        self.url = f"http://{self.host}"

    def begin(self, answers: dict[str, Answer]) -> None:
        """Answer like this from now on, and forget what was heard."""
        self.answers, self.heard = answers, []

    def knows(self, *secrets: str) -> list[str]:
        """The requests in which one of `secrets` is, in any spelling that is known."""
        known = Secrets(secrets)
        return [heard for heard in self.heard if known.holds(heard)]


@contextmanager
def api_and_stranger() -> Iterator[tuple[Told, Told]]:
    """The two servers."""
    with answering(Told()) as api, answering(Told()) as stranger:
        yield api, stranger


SPELLED = {
    "plain": "http://{foreign}/page",
    "no scheme": "//{foreign}/page",
    "user": "http://{api}@{foreign}/page",
    "user and password": "http://127.0.0.1:{port}@{foreign}/page",
    "backslash": "http://{foreign}\\@{api}/page",
    "backslash and user": "http://{api}\\@{foreign}/page",
    "echo": "http://{foreign}/page?key={secret}",
    "upper case": "HTTP://{foreign}/page",
    "blank": " http://{foreign}/page",
    "tab": "ht\ttp://{foreign}/page",
}
"""Ways to spell a URL that leads, or seems to lead, to the stranger."""
