"""Checks of values (valid JSON, size limit, no secrets) that run before the data that a value covers is written."""

from collections.abc import Iterable

from cdk.base.errors import StateError, StateTooLarge
from cdk.base.secret_masking import Secrets, spellings
from cdk.base.values import canonical, from_json
from cdk.state.log.canonical_json import leaves
from cdk.state.log.slot_value import Frozen, StateValue, frozen

_SHORTEST = 6
"""Shorter secrets would match parts of many ordinary values."""
# fmt: off
_WIRE_NAMES = (
    "__ab_no_cursor_state_message", "__ab_full_refresh_sync_complete", "states", "partition", "parent_state", "cursor",
    "use_global_cursor", "lookback_window", "next_page_token", "page_size", "counts", "records", "number",
    "date-range", "state_type", "slices", "window", "through", "listing", "fingerprint", "missing",
)
# fmt: on
"""Names that the states of all connectors contain: a password such as `cursor` would match in every state."""


class ValueCheck:
    """The checks of one log.

    secrets: strings that no state may contain. largest: maximum bytes of the canonical text of one slot's value.
    """

    def __init__(self, secrets: Iterable[str], largest: int) -> None:
        self.secrets, self._largest = SecretCheck(secrets), largest

    def check(self, slot: str, value: StateValue, *, more: int = 0) -> Frozen:
        """Return a value as bytes that can be stored; no later step refuses it.

        more: bytes of the value that were checked before and are not in `value`. Raises BadState: when the slot name is
        invalid or JSON cannot represent the value. StateTooLarge: when it is larger than allowed. StateError: when it
        contains a secret. Each names the slot and the path.
        """
        frozen_value = frozen(slot, value)
        if (size := frozen_value.size + more) > self._largest:
            raise StateTooLarge(
                f"found a state of {size:,} bytes, expected at most {self._largest:,}; raise "
                "max_checkpoint_state_size, or store less in this slot",
                path=slot,
            )
        self.secrets.refuse(frozen_value.text, slot)
        return frozen_value


class SecretCheck:
    """Searches JSON texts for secrets: verbatim, and as spelled in URLs, JSON and base64.

    Ignores secrets of fewer than six characters, and those that are part of a name that every state contains.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        named = [secret for secret in secrets if not any(secret in name for name in _WIRE_NAMES)]
        long = [secret for secret in named if len(secret) >= _SHORTEST]
        self._mask = Secrets(long).mask
        self._spellings = {form for secret in long for form in spellings(secret).values() if len(form) >= _SHORTEST}
        self._needles = [canonical(form)[1:-1].encode() for form in self._spellings]

    def refuse(self, text: bytes, path: str) -> None:
        """Raise StateError if a JSON text contains a secret, naming its path but never the secret."""
        if not any(needle in text for needle in self._needles):
            return
        for path_of_leaf, leaf in leaves(from_json(text), path):
            if any(form in str(leaf) for form in self._spellings):
                raise StateError(
                    "found a secret of the config, expected none: what is stored can be read by others; keep the "
                    "secret out of the cursor or token, for example out of its URL",
                    path=self._mask(path_of_leaf),
                )
        raise StateError("found a secret of the config across several values, expected none", path=path)
