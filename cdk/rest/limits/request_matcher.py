"""RequestMatcher: which requests something is about."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from cdk.base.bounded_regex import Pattern
from cdk.rest.http.messages import Request


@dataclass(frozen=True, slots=True)
class RequestMatcher:
    """Requests that have all of these parts; without one, every request."""

    method: str = ""
    url_base: str = ""
    """Scheme and host: `https://api.example.com`."""
    path: Pattern | None = None
    """Is searched for in the URL's path."""
    params: Mapping[str, str] = field(default_factory=dict)
    """Some of the request's."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Some of the request's, with names in any case."""
    weight: int = 1
    """Calls that one such request counts for."""

    def matches(self, request: Request) -> bool:
        """Whether `request` is one of these."""
        if self.method and self.method.upper() != request.method.upper():
            return False
        if self.url_base or self.path is not None:
            url = urlsplit(request.url)
            if self.url_base and self.url_base.rstrip("/") != f"{url.scheme}://{url.netloc}":
                return False
            if self.path is not None and self.path.search(url.path) is None:
                return False
        if self.params:
            sent = dict(parse_qsl(urlsplit(request.full_url).query, keep_blank_values=True))
            if any(sent.get(name) != value for name, value in self.params.items()):
                return False
        if self.headers:
            fields = {name.lower(): value for name, value in request.headers.items()}
            return all(fields.get(name.lower()) == value for name, value in self.headers.items())
        return True
