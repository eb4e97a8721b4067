import pytest

from cdk import ConfigError, TransientError
from cdk.state.bookmark_copies import open_copies
from cdk.state.cloud_bookmark_copies import CloudCopies
from tests.state.stores.servers import s3


def test_copies_lie_in_an_object_store() -> None:
    with s3() as options:
        copies = open_copies("s3://states/copies", options)
        assert isinstance(copies, CloudCopies)
        copies.put("job.json", b"first")
        copies.put("job.json", b"second")

        assert copies._read("job.json") == b"second"
        with pytest.raises((ConfigError, TransientError), match=r"s3://nowhere/job\.json: "):
            open_copies("s3://nowhere", options).put("job.json", b"{}")
