"""What a state may hold to be kept: found out before anything that goes with it is written."""

from collections.abc import Iterable

from cdk.base.errors import StateTooLarge
from cdk.state.log.secret_check import SecretCheck
from cdk.state.log.slot_value import Frozen, StateValue, frozen


class Limits:
    """secrets: texts that no state may contain. largest: bytes that the canonical text of one slot's value may have."""

    def __init__(self, secrets: Iterable[str], largest: int) -> None:
        self.leaks, self._largest = SecretCheck(secrets), largest

    def check(self, slot: str, value: StateValue) -> Frozen:
        """A value that may be kept: nothing that would refuse it is left for later.

        Raises BadState: no slot's name, or no JSON. StateTooLarge: it is larger than allowed. StateError: it contains a
        secret. Each names the slot and the place.
        """
        frozen_value = frozen(slot, value)
        if len(frozen_value.text) > self._largest:
            raise StateTooLarge(
                f"found a state of {len(frozen_value.text):,} bytes, expected at most {self._largest:,}; raise "
                "max_checkpoint_state_size, or keep less in this slot",
                path=slot,
            )
        self.leaks.refuse(frozen_value.text, slot)
        return frozen_value
