"""RequestBuilder: a request that several components add to; none may overwrite a value set by another."""

from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlencode, urljoin

from cdk.base.errors import ManifestError
from cdk.base.values import JsonObject, JsonValue, to_json
from cdk.rest import Request
from cdk.rest.http.messages import RequestPart, query_of
from cdk.rest.http.origin import CredentialScope

_JSON = "application/json"
_FORM = "application/x-www-form-urlencoded"


class RequestBuilder:
    """A request under construction. `put` and the fields add to it; `request` builds it.

    url: absolute. where: the component of the manifest that errors name. text: a body that is sent verbatim, and that
    excludes other body fields. stream: the response is passed on as it arrives. scope: where its credentials may be
    sent; None for the origin of the initial `url`. base: returns the URL that relative links are joined to, if not
    `url`.
    """

    __slots__ = (
        "_first", "base", "form", "headers", "json", "method", "params", "scope", "stream", "text", "url", "where",
    )  # fmt: skip

    def __init__(self, method: str, url: str, where: str, *, stream: bool = False) -> None:
        self.method, self.url, self.where, self.stream = method, url, where, stream
        self.base: Callable[[], str] | None = None
        self.scope: CredentialScope | None = None
        self._first = url
        self.params: JsonObject = {}
        self.headers: JsonObject = {}
        self.form: JsonObject = {}
        self.json: JsonValue = {}
        self.text: str | None = None

    def put(self, part: RequestPart, path: Sequence[str], value: JsonValue) -> None:
        """Add one value; `path` has one part except in a JSON body.

        Raises ManifestError: when the place already has a value. In a JSON body, the same value may be added again, and
        the fields of objects are joined.
        """
        match part:
            case "request_parameter":
                self._put_flat(self.params, path[0], value, "the query parameter")
            case "header":
                self._put_flat(self.headers, path[0], value, "the header")
            case "body_data":
                self._free_body()
                self._put_flat(self.form, path[0], value, "the form field")
            case "body_json":
                self._free_body()
                self._put_deep(path, value)

    def follow(self, link: str) -> None:
        """Send the request to `link` instead; a relative link is joined to `base`."""
        base = self.url if self.base is None else self.base()
        self.url = urljoin(base if base.endswith("/") else f"{base}/", link)

    def request(self) -> Request:
        """Return the request built so far. A parameter that the URL already has with the same value is sent once.

        Raises ManifestError: when it has two kinds of body at once.
        """
        body, headers = self._body()
        for name, value in self.headers.items():
            headers[name] = value if type(value) is str else str(value)
        params = _texts(self.params, self.url)
        scope = self.scope
        if scope is None and self.url is not self._first:
            scope = CredentialScope.of([self._first])
        return Request(self.method, self.url, params, headers, body, stream=self.stream, scope=scope)

    def _body(self) -> tuple[bytes | None, dict[str, str]]:
        if self.text:
            if self.json or self.form:
                raise ManifestError(
                    f"{self.where}: the body cannot be a string and have fields at the same time; keep one of the two"
                )
            return self.text.encode(), {}
        if self.json:
            if self.form:
                why = f"{self.where}: the body cannot be JSON and a form at the same time; keep one of the two"
                raise ManifestError(why)
            return to_json(self.json, str), {"Content-Type": _JSON}
        if self.form:
            return urlencode(_texts(self.form, ""), doseq=True).encode(), {"Content-Type": _FORM}
        return None if self.text is None else b"", {}

    def _free_body(self) -> None:
        if self.text is not None:
            why = f"{self.where}: the body is a string, so no fields can be added to it; write it as an object"
            raise ManifestError(why)

    def _put_flat(self, fields: JsonObject, name: str, value: JsonValue, what: str) -> None:
        if name in fields:
            raise self._already_set(f"{what} {name!r}")
        fields[name] = value

    def _put_deep(self, path: Sequence[str], value: JsonValue) -> None:
        *outer, last = path
        node = self.json
        for key in outer:
            node = node.setdefault(key, {}) if isinstance(node, dict) else None
        if not isinstance(node, dict):
            raise self._already_set(f"{' > '.join(path)} of the JSON body")
        if isinstance(value, dict) and isinstance(node.setdefault(last, {}), dict):
            for name, item in value.items():
                self._put_deep([*path, name], item)
        elif node.setdefault(last, value) != value:
            raise self._already_set(f"{' > '.join(path)} of the JSON body")

    def _already_set(self, what: str) -> ManifestError:
        return ManifestError(f"{self.where}: {what} is set twice; keep it in one place")


def _texts(fields: Mapping[str, JsonValue], url: str) -> JsonObject:
    """Return fields as sent: strings and lists of strings, without nulls and without what the query of `url` has."""
    in_url = frozenset(query_of(url)) if "?" in url else frozenset[tuple[str, str]]()
    texts: JsonObject = {}
    for name, value in fields.items():
        if value is None:
            continue
        if isinstance(value, list | tuple):
            items = list(map(str, value))
            unsent = [text for text in items if (name, text) not in in_url] if in_url else items
            if unsent or not items:
                texts[name] = unsent
        else:
            text = value if type(value) is str else str(value)
            if not in_url or (name, text) not in in_url:
                texts[name] = text
    return texts
