"""CloudCopies: copies in an object store, which replaces an object as a whole by itself."""

import obstore

from cdk.state.stores.cloud import CloudStore


class CloudCopies(CloudStore):
    """Objects under `url` that are replaced; `url` and `options` are those of a CloudStore."""

    def put(self, name: str, data: bytes) -> None:
        with self._telling(name):
            obstore.put(self._store, name, data)
