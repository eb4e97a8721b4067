"""Custom code in syncs, which may read a stream once more in the same process."""

from datetime import timedelta
from http.server import ThreadingHTTPServer
from pathlib import Path

from cdk.base.values import to_json
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.context import Runtime
from cdk.declarative.source import ManifestSource
from cdk.rest import HttpTransport
from cdk.sources.manifests import airbyte_code
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, SparkOptions, StreamOptions, TargetOptions
from tests.compat.sources import manifest
from tests.local_server import QuietHandler, answering
from tests.worlds.table import rows


def test_a_filter_that_remembers_gives_all_records_again_to_a_read_that_begins_anew(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.declarative.extractors.record_filter import RecordFilter

class Unseen(RecordFilter):
    def __post_init__(self, parameters):
        super().__post_init__(parameters)
        self._seen = set()

    def filter_records(self, records, stream_state, stream_slice=None, next_page_token=None):
        for record in records:
            if record["id"] not in self._seen:
                self._seen.add(record["id"])
                yield record
"""
    option = {"type": "RequestOption", "field_name": "page", "inject_into": "request_parameter"}
    strategy = {"type": "PageIncrement", "page_size": 2}
    written = manifest(
        {"primary_key": "id"},
        record_selector={"record_filter": {"type": "CustomRecordFilter", "class_name": "components.Unseen"}},
        paginator={"type": "DefaultPaginator", "pagination_strategy": strategy, "page_token_option": option},
    )
    refused = list[str]()

    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 - the server's name
            page = int(self.path.partition("page=")[2] or 0)
            if page == 2 and not refused:
                # The page of a token that a commit has saved: the table's generation begins anew.
                refused.append(self.path)
                self.answer(404, b"{}", {})
                return
            data = [{"id": n} for n in range(5)][2 * page : 2 * page + 2]
            self.answer(200, to_json({"data": data}), {"Content-Type": "application/json"})

    streams = {"items": StreamOptions.model_validate({"sync_mode": "full_refresh", "write_mode": "overwrite"})}
    pipeline = Pipeline(
        name="world",
        source=SourceOptions(connector="given"),
        target=TargetOptions(path=str(tmp_path / "lake")),
        streams=streams,
        checkpoint_interval=timedelta(),
        spark=SparkOptions(start="never"),
    )

    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        written["streams"][0]["retriever"]["requester"]["url_base"] = f"http://127.0.0.1:{server.server_address[1]}"
        (tmp_path / "components.py").write_text(code)
        runtime = Runtime(transport=HttpTransport(), folder=tmp_path, custom=airbyte_code(allowed=True))
        result = SyncRunner(pipeline, ManifestSource(Manifest(written), runtime)).run()

    assert (result.ok, len(refused)) == (True, 1)
    assert sorted(row["id"] for row in rows(tmp_path / "lake" / "items")) == [0, 1, 2, 3, 4]
