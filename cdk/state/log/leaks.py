"""Leaks: secrets that are about to be stored are found first."""

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

from cdk.base.errors import StateError
from cdk.base.values import canonical, from_json
from cdk.state.log.canonical import leaves

_SHORTEST = 6
"""Shorter secrets would be found in every other value."""


class Leaks:
    """Looks for secrets in JSON texts: as they are, and as URLs, JSON and base64 spell them.

    Secrets of fewer than six characters are not looked for.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._spellings = {
            form for secret in secrets if len(secret) >= _SHORTEST for form in _forms(secret) if len(form) >= _SHORTEST
        }
        self._needles = [canonical(form)[1:-1].encode() for form in self._spellings]

    def refuse(self, text: bytes, path: str) -> None:
        """Raise StateError naming the place of the first secret in a JSON text, never the secret."""
        if not any(needle in text for needle in self._needles):
            return
        for place, leaf in leaves(from_json(text), path):
            if any(form in str(leaf) for form in self._spellings):
                raise StateError(
                    "found a secret of the config, expected none: what is stored can be read by others; keep the "
                    "secret out of the cursor or token, for example out of its URL",
                    path=self._masked(place),
                )
        raise StateError("found a secret of the config across several values, expected none", path=path)

    def _masked(self, place: str) -> str:
        """A place whose keys are secrets themselves says so."""
        for form in sorted(self._spellings, key=len, reverse=True):
            place = place.replace(form, "****")
        return place


def _forms(secret: str) -> Iterator[str]:
    yield from (secret, quote(secret, safe=""), quote_plus(secret))
    raw = secret.encode(errors="replace")
    for encode in (b64encode, urlsafe_b64encode):
        for shift in range(3):
            # Base64 takes three bytes at a time: a secret behind others (`user:secret`) has three spellings. The
            # letters at its ends are mixed with the neighbours' and are left out.
            spelled = encode(bytes(shift) + raw).decode().rstrip("=")
            yield spelled[-(-shift * 8 // 6) : (shift + len(raw)) * 8 // 6]
