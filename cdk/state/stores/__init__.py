"""Where the logs of state lie."""

from cdk.state.stores.key import StateKey
from cdk.state.stores.opening import open_store
from cdk.state.stores.protocol import StateStore

__all__ = ["StateKey", "StateStore", "open_store"]
