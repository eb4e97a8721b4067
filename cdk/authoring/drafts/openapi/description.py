"""Description: an OpenAPI description (3.0, 3.1, and Swagger 2.0), as far as streams need it, and how it is read.

Any part of it may be wrong: a value that is not of the expected type counts as missing.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from posixpath import dirname, join, normpath
from urllib.parse import unquote, urldefrag, urljoin, urlsplit, urlunsplit

from msgspec import Struct
from msgspec.structs import replace
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable

from cdk.authoring.drafts.draft import Parameter
from cdk.authoring.drafts.names import without_verb
from cdk.base.errors import ConfigError
from cdk.base.values import JsonValue, as_list, as_object, as_string, canonical, from_json, json_kind
from cdk.base.yaml_file import YamlFile, read_text
from cdk.declarative.reading.schema_file import is_file
from cdk.rest import HttpClient, HttpTransport, Request, Transport
from cdk.rest.http.redact import safe_url

_CREDENTIALS = re.compile(r"(?<=://)[^/?#]*@")
_MOST_REFERENCES = 20
"""The longest chain of references that is followed."""

_SUCCESS = ("200", "2XX", "2xx", "201", "203", "206", "default")
_IN_PARAMETERS = ("type", "format", "enum", "default", "minimum", "maximum", "items")


class Operation(Struct, frozen=True):
    """An operation that reads: a GET, or a POST whose path ends with a reading verb.

    schema: of the body of a successful response; None if no JSON is described. headers: of that response. body: the
    schema of the JSON that the request sends.
    """

    path: str
    parameters: Sequence[Parameter]
    schema: JsonValue
    headers: Sequence[str]
    servers: Sequence[JsonValue]
    security: Sequence[JsonValue]
    deprecated: bool
    text: str
    method: str = "GET"
    body: JsonValue = None

    @property
    def resource_path(self) -> str:
        """The path of the records: for a POST, the path without its verb."""
        return self.path if self.method == "GET" else without_verb(self.path)

    def located(self, location: str) -> dict[str, Parameter]:
        """Return the parameters of one location of the request, by name."""
        return {each.name: each for each in self.parameters if each.location == location}


class Description:
    """A parsed description. name: for errors. origin: the URL it was read from, if any.

    beside: returns the document that a relative reference points to; None if it may not be read.

    Raises ConfigError: when the document is not a description.
    """

    def __init__(
        self, document: JsonValue, name: str = "", origin: str = "", beside: Callable[[str], JsonValue] = lambda _: None
    ) -> None:
        self._document, self.name, self._origin, self._beside = as_object(document), name, origin, beside
        version = self._document.get("openapi") or self._document.get("swagger")
        if not str(version).startswith(("3.", "2.")) or not as_object(self._document.get("paths")):
            keys = f"the keys {', '.join(list(self._document)[:5])}" if self._document else json_kind(document)
            raise ConfigError(
                f"is not an OpenAPI description: found {keys}, expected `openapi: 3.x` or `swagger: 2.0`, and `paths`",
                path=name,
            )
        self._files: Registry[JsonValue] = Registry().with_resource("", Resource.opaque(dict(self._document)))
        self._unresolved: set[str] = set()
        info = as_object(self._document.get("info"))
        self.title, self.version = as_string(info.get("title")) or "the API", str(info.get("version") or "")

    def not_read(self) -> Sequence[str]:
        """Return the referenced files and URLs that are not read, and references that resolve to nothing."""
        named = {each if (file := urldefrag(each).url) in self._files else file for each in self._unresolved}
        return sorted(_CREDENTIALS.sub("", each) for each in named)

    def mentions(self, words: str) -> bool:
        """Whether the description contains these words anywhere."""
        return words in canonical(self._document)

    def resolved(self, value: JsonValue) -> Mapping[str, JsonValue]:
        """Return the object that a value is or refers to; an empty one if no document that is read contains it.

        Raises ConfigError: when a file beside the description cannot be read.
        """
        for _ in range(_MOST_REFERENCES):
            value = as_object(value)
            if not (reference := as_string(value.get("$ref"))):
                return value
            try:
                value = self._with(urldefrag(reference).url).resolver().lookup(reference).contents
            except (Unresolvable, ValueError, TypeError, AttributeError):
                self._unresolved.add(reference)
                return {}
        return {}

    def _with(self, file: str) -> Registry[JsonValue]:
        """Return the documents, with that of a file if it may be read, its references relative to the description."""
        if file not in self._files and (document := self._beside(file)) is not None:
            self._files = self._files.with_resource(file, Resource.opaque(_as_from_outside(document, file)))
        return self._files

    def operations(self) -> Iterator[Operation]:
        """Yield the operations that read, one for each path, in the order of the paths."""
        for path, value in as_object(self._document.get("paths")).items():
            item = self.resolved(value)
            if get := as_object(item.get("get")):
                yield self._operation(path, item, get)
            elif without_verb(path) != path and (post := as_object(item.get("post"))):
                yield replace(self._operation(path, item, post), method="POST", body=self._sent(post))

    def servers(self, operation: Operation) -> Sequence[JsonValue]:
        """Return the servers of an operation, in the form of OpenAPI 3."""
        if "swagger" in self._document:
            scheme = next(map(as_string, as_list(self._document.get("schemes"))), "https")
            host, base = as_string(self._document.get("host")), as_string(self._document.get("basePath"))
            return [{"url": f"{scheme}://{host}{base}" if host else base}]
        return operation.servers or as_list(self._document.get("servers"))

    def absolute(self, url: str) -> str:
        """Return a URL of the description, resolved against its origin, without a user and password."""
        joined = urljoin(self._origin, url) if self._origin and "://" not in url else url
        return _CREDENTIALS.sub("", joined)

    def security_schemes(self) -> Mapping[str, Mapping[str, JsonValue]]:
        """Return the security schemes, by name."""
        components = as_object(self._document.get("components"))
        schemes = components.get("securitySchemes") or self._document.get("securityDefinitions")
        return {name: self.resolved(scheme) for name, scheme in as_object(schemes).items()}

    def _operation(self, path: str, item: Mapping[str, JsonValue], get: Mapping[str, JsonValue]) -> Operation:
        parameters = {
            (each.name, each.location): each
            for value in [*as_list(item.get("parameters")), *as_list(get.get("parameters"))]
            if (each := self._parameter(self.resolved(value))).name
        }
        responses = as_object(get.get("responses"))
        response = next((self.resolved(responses[code]) for code in _SUCCESS if code in responses), {})
        return Operation(
            path,
            list(parameters.values()),
            _body(self.resolved(response)),
            list(as_object(response.get("headers"))),
            as_list(get.get("servers")) or as_list(item.get("servers")),
            as_list(get["security"] if "security" in get else self._document.get("security")),
            get.get("deprecated") is True,
            " ".join(as_string(get.get(key)) for key in ("summary", "description")),
        )

    def _sent(self, post: Mapping[str, JsonValue]) -> JsonValue:
        """Return the schema of the JSON that an operation sends."""
        parameters = map(self.resolved, as_list(post.get("parameters")))
        of_swagger = next((each for each in parameters if each.get("in") == "body"), None)
        return _body(self.resolved(post.get("requestBody")) if of_swagger is None else of_swagger)

    def _parameter(self, value: Mapping[str, JsonValue]) -> Parameter:
        content = [as_object(media).get("schema") for media in as_object(value.get("content")).values()]
        schema = self.resolved(value.get("schema") or next(iter(content), None))
        own = {key: value[key] for key in _IN_PARAMETERS if key in value}
        return Parameter(
            as_string(value.get("name")),
            as_string(value.get("in")),
            value.get("required") is True,
            schema or own,
            as_string(value.get("description")),
        )


def _as_from_outside(value: JsonValue, file: str) -> JsonValue:
    """Return a part of a file with its references relative to the description instead of the file."""
    match value:
        case list():
            return [_as_from_outside(part, file) for part in value]
        case dict():
            parts = {name: _as_from_outside(part, file) for name, part in value.items()}
            return {**parts, "$ref": _joined(file, ref)} if isinstance(ref := value.get("$ref"), str) else parts
        case _:
            return value


def _joined(file: str, reference: str) -> str:
    """Return a file's reference relative to the description; `..` remains if it leads out of the folder."""
    url, fragment = urldefrag(reference)
    if "://" not in url:
        url = normpath(join(dirname(file), url)) if url else file
    return f"{url}#{fragment}"


def _body(message: Mapping[str, JsonValue]) -> JsonValue:
    """Return the schema of the JSON of a request or a response; None if there is none."""
    if "schema" in message:
        return message["schema"]
    media = as_object(message.get("content"))
    chosen = next((name for name in media if "json" in name.lower() or name == "*/*"), None)
    return None if chosen is None else as_object(media[chosen]).get("schema")


def read_description(location: str, transport: Transport | None = None) -> Description:
    """Read the description in a file or at an http(s) URL. Raises ConfigError: when it is missing or invalid."""
    is_url = location.startswith(("http://", "https://"))
    shown = safe_url(location) if is_url else location
    client = HttpClient(transport or HttpTransport())
    text = client.send(Request("GET", location)).text if is_url else read_text(Path(location))
    document = _parsed(text, shown)
    if is_url:
        return Description(document, shown, _base_url(location))
    return Description(document, shown, beside=partial(_file_in, Path(location).parent))


def _parsed(text: str, shown: str) -> JsonValue:
    """Parse a JSON or YAML document. Raises ConfigError: when it is neither."""
    try:
        return from_json(text) if text.lstrip().startswith("{") else YamlFile.parse(text, Path(shown)).value
    except ValueError as error:
        raise ConfigError(f"is not JSON: {error}", path=shown) from error


def _file_in(folder: Path, reference: str) -> JsonValue:
    """Return the document in a file inside the folder; None if there is no such file.

    Raises ConfigError: when it is invalid.
    """
    file = folder / unquote(reference)
    return _parsed(read_text(file), str(file)) if is_file(file, within=folder) else None


def _base_url(url: str) -> str:
    """Return the URL without credentials and query, as the base of relative URLs."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
