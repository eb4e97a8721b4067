import gzip

import pytest

from cdk.base.errors import DecodeError, FatalError, ManifestError
from cdk.base.values import Json
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.context import Runtime
from cdk.declarative.source import ManifestSource
from cdk.rest.async_jobs import JobBudget
from cdk.testing import MockApi, ReadResult, read
from tests.rest.api import Time

URL = "https://api.test"
RECORDS = {"type": "DpathExtractor", "field_path": ["data"]}
CURSOR = {
    "type": "DatetimeBasedCursor",
    "cursor_field": "day",
    "datetime_format": "%Y-%m-%d",
    "start_datetime": "2024-01-01",
    "end_datetime": "2024-01-31",
}


def asks(path: str, method: str = "GET", **fields: Json) -> dict[str, Json]:
    return {"type": "HttpRequester", "url": f"{URL}{path}", "http_method": method, **fields}


def manifest(stream: dict[str, Json] | None = None, /, **retriever: Json) -> dict[str, Json]:
    fields = {
        "type": "AsyncRetriever",
        "record_selector": {
            "type": "RecordSelector",
            "extractor": {"type": "DpathExtractor", "field_path": ["unused"]},
        },
        "status_mapping": {
            "running": ["run"],
            "completed": ["ok"],
            "failed": ["bad"],
            "timeout": ["late"],
            "skipped": ["none"],
        },
        "status_extractor": {"type": "DpathExtractor", "field_path": ["status"]},
        "creation_requester": asks("/jobs", "POST", request_parameters={"from": "{{ stream_interval.start_time }}"}),
        "polling_requester": asks("/jobs/{{ creation_response['id'] }}"),
        "download_requester": asks("{{ download_target }}"),
        "download_target_extractor": {"type": "DpathExtractor", "field_path": ["files"]},
        "download_extractor": RECORDS,
        "abort_requester": asks("/jobs/{{ creation_response['id'] }}/abort", "POST"),
        "delete_requester": asks("/jobs/{{ creation_response['id'] }}/delete", "POST"),
        **retriever,
    }
    reports = {
        "type": "DeclarativeStream",
        "name": "reports",
        "retriever": {name: value for name, value in fields.items() if value is not None},
        "schema_loader": {"type": "InlineSchemaLoader", "schema": {"type": "object", "properties": {}}},
        **(stream or {}),
    }
    check = {"type": "CheckStream", "stream_names": ["reports"]}
    return {"type": "DeclarativeSource", "version": "7.0.0", "check": check, "streams": [reports]}


class Reports:
    """An API with jobs: each is completed, with two files, when it is looked at for the second time."""

    def __init__(self) -> None:
        self.api, self.time = MockApi(), Time()
        self.api.post("/jobs").returns(json={"id": 1}).returns(json={"id": 2}).returns(json={"id": 3})
        for job in (1, 2, 3):
            self.looks(job, "run", "ok")
            self.api.post(f"/jobs/{job}/abort").returns(json={})
            self.api.post(f"/jobs/{job}/delete").returns(json={})
        # What has come since the cut has a job of its own.
        self.api.post("/jobs", {"from": "2024-01-03"}).returns(json={"id": 9})
        self.looks(9, "none")
        self.api.get("/a").returns(json={"data": [{"id": "a", "day": "2024-01-02"}]})
        self.api.get("/b").returns(json={"data": [{"id": "b", "day": "2024-01-03"}]})

    def looks(self, job: int, *statuses: Json, files: tuple[str, ...] = ("/a", "/b")) -> None:
        route = self.api.get(f"/jobs/{job}")
        for status in statuses:
            route.returns(json={"status": status, "files": list(files)})

    def read(self, document: dict[str, Json], run: ReadResult | None = None) -> ReadResult:
        runtime = Runtime(transport=self.api, sleep=self.time.sleep, clock=self.time.clock)
        source = ManifestSource(Manifest(document), runtime)
        return read(source, "reports", state=run.state_messages if run is not None else ())

    @property
    def asked(self) -> list[str]:
        """Methods and paths of what was asked since this was last looked at."""
        found = [f"{r.method} {r.full_url.removeprefix(URL)}" for r in self.api.requests]
        self.api.requests.clear()
        return found


def test_a_job_is_asked_for_looked_at_downloaded_and_deleted() -> None:
    reports = Reports()

    run = reports.read(manifest())

    assert run.error is None
    assert [r["id"] for r in run.records] == ["a", "b"]
    assert reports.asked == ["POST /jobs", "GET /jobs/1", "GET /jobs/1", "GET /a", "GET /b", "POST /jobs/1/delete"]
    assert reports.time.slept == [5.0]


@pytest.mark.parametrize(
    ("statuses", "tidied", "slept"), [(("bad",), [], [30.0]), (("run", "late"), ["POST /jobs/1/abort"], [5.0])]
)
def test_a_job_that_ends_without_a_result_is_asked_for_again(
    statuses: tuple[str, ...], tidied: list[str], slept: list[float]
) -> None:
    reports = Reports()
    reports.looks(1, *statuses)
    reports.looks(2, "ok", files=("/a",))

    run = reports.read(manifest(failed_retry_wait_time_in_seconds=30))

    assert [r["id"] for r in run.records] == ["a"]
    asked = ["POST /jobs", *["GET /jobs/1"] * len(statuses), *tidied]
    assert reports.asked == [*asked, "POST /jobs", "GET /jobs/2", "GET /a", "POST /jobs/2/delete"]
    assert reports.time.slept == slept


def test_a_job_that_runs_too_long_is_aborted_and_asked_for_again() -> None:
    reports = Reports()
    reports.looks(1, "run")
    reports.looks(2, "ok", files=("/a",))

    run = reports.read(manifest(polling_job_timeout="{{ 1 }}"))

    assert [r["id"] for r in run.records] == ["a"]
    assert "POST /jobs/1/abort" in reports.asked
    assert reports.time.slept == [5.0] * 12


@pytest.mark.parametrize("option", [None, {"type": "RequestOption", "inject_into": "header", "field_name": "kind"}])
def test_an_option_of_a_partition_that_no_job_gets_is_warned_of_once(option: dict[str, Json] | None) -> None:
    router = {"type": "ListPartitionRouter", "cursor_field": "kind", "values": ["x", "y"], "request_option": option}

    run = Reports().read(manifest(partition_router=router))

    texts = [line for line in run.warnings if "partition_router: its `request_option` is not sent" in line]
    assert len(texts) == (option is not None)
    assert all("stream_partition['id']" in text for text in texts)


def test_three_failed_jobs_fail_the_stream() -> None:
    reports = Reports()
    for job in (1, 2, 3):
        reports.looks(job, "bad")

    run = reports.read(manifest())

    assert run.error is not None
    assert "created 3 times, and the last one failed" in str(run.error)
    assert run.error.failure_type == FatalError.failure_type
    assert run.statuses == ["STARTED", "INCOMPLETE"]


def test_a_job_that_cannot_be_asked_for_is_tried_three_times() -> None:
    reports = Reports()
    reports.api.post("/jobs").returns(status=404)

    run = reports.read(manifest())

    assert run.error is not None
    assert reports.asked == ["POST /jobs"] * 3


def test_a_skipped_job_gives_nothing_and_is_no_failure() -> None:
    reports = Reports()
    reports.looks(1, "none")

    run = reports.read(manifest())

    assert (run.records, run.statuses) == ([], ["STARTED", "COMPLETE"])
    assert reports.asked == ["POST /jobs", "GET /jobs/1"]


def test_an_unknown_status_is_named_with_those_that_are_known_and_its_job_is_aborted() -> None:
    reports = Reports()
    reports.looks(1, "wait")

    run = reports.read(manifest())

    assert run.error is not None
    assert "the status 'wait', expected one of 'run', 'ok', 'bad', 'late', 'none'" in str(run.error)
    assert reports.asked == ["POST /jobs", "GET /jobs/1", "POST /jobs/1/abort"]


def test_a_cut_read_goes_on_with_the_same_job_behind_the_targets_it_had() -> None:
    reports = Reports()
    broken = reports.api.get("/b").returns(status=404)
    document = manifest({"incremental_sync": CURSOR}, delete_requester=None)

    first = reports.read(document)
    reports.api._routes.remove(broken)
    asked = reports.asked
    second = reports.read(document, first)

    assert [r["id"] for r in first.records] == ["a"]
    assert asked == ["POST /jobs?from=2024-01-01", "GET /jobs/1", "GET /jobs/1", "GET /a", "GET /b"]
    assert second.error is None
    assert [r["id"] for r in second.records] == ["b"]
    assert reports.asked[:2] == ["GET /jobs/1", "GET /b"]
    assert second.states[-1] == {"day": "2024-01-03"}


def test_a_read_that_is_cut_while_the_job_runs_does_not_ask_for_another() -> None:
    reports = Reports()
    reports.api.get("/jobs/1").returns(status=404)
    document = manifest({"incremental_sync": CURSOR})

    first = reports.read(document)
    reports.looks(1, "ok")
    first_asked = reports.asked
    second = reports.read(document, first)

    assert first_asked == ["POST /jobs?from=2024-01-01", "GET /jobs/1"]
    assert [r["id"] for r in second.records] == ["a", "b"]
    assert "POST /jobs?from=2024-01-01" not in reports.asked


def test_a_job_that_is_gone_when_a_read_goes_on_is_asked_for_again() -> None:
    reports = Reports()
    reports.api.get("/b").returns(status=404).returns(json={"data": [{"id": "b", "day": "2024-01-03"}]})
    document = manifest({"incremental_sync": CURSOR})

    first = reports.read(document)
    reports.api.get("/jobs/1").returns(status=404)
    second = reports.read(document, first)

    assert second.error is None
    assert [r["id"] for r in second.records] == ["a", "b"]
    assert reports.asked[-8:-2] == [
        "POST /jobs?from=2024-01-01",
        "GET /jobs/2",
        "GET /jobs/2",
        "GET /a",
        "GET /b",
        "POST /jobs/2/delete",
    ]


def test_an_answer_that_echoes_a_secret_does_not_get_into_a_state() -> None:
    reports = Reports()
    reports.api.post("/jobs").returns(json={"id": 1, "by": "hush-hush"})
    reports.api.get("/b").returns(status=404)
    create = asks("/jobs", "POST", request_headers={"Authorization": "Bearer hush-hush"})

    run = reports.read(manifest({"incremental_sync": CURSOR}, creation_requester=create))

    assert run.error is not None
    assert "hush" not in str(run.states)


def test_pages_of_a_target_and_the_paths_to_it() -> None:
    reports = Reports()
    route = reports.api.get("/a").returns(json={"data": [{"x": 1}, {"x": 2}]}).returns(json={"data": [{"x": 3}]})
    reports.looks(1, "ok")
    reports.api.get("/where").returns(json={"at": "/a"})
    paginator = {
        "type": "DefaultPaginator",
        "pagination_strategy": {"type": "PageIncrement", "page_size": 2, "start_from_page": 1},
        "page_token_option": {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "page"},
    }
    download = asks(
        "{{ download_target }}",
        request_headers={"X": "{{ creation_response.id }} {{ polling_response.status }} {{ stream_slice.region }}"},
    )

    run = reports.read(
        manifest(
            download_paginator=paginator,
            download_requester=download,
            download_target_requester=asks("/where"),
            download_target_extractor={"type": "DpathExtractor", "field_path": ["at"]},
            partition_router={"type": "ListPartitionRouter", "values": ["eu"], "cursor_field": "region"},
        )
    )

    assert run.error is None
    assert run.records == [{"x": 1}, {"x": 2}, {"x": 3}]
    assert [r.params for r in route.requests] == [{}, {"page": "2"}]
    assert [r.headers["X"] for r in route.requests] == ["1 ok eu"] * 2


def test_without_a_target_extractor_there_is_one_download() -> None:
    reports = Reports()
    reports.looks(1, "ok")

    run = reports.read(manifest(download_target_extractor=None, download_requester=asks("/a")))

    assert [r["id"] for r in run.records] == ["a"]


def test_an_answer_without_the_field_of_the_targets_is_no_silent_end() -> None:
    reports = Reports()
    extractor = {"type": "DpathExtractor", "field_path": ["flies"]}

    run = reports.read(manifest(download_target_extractor=extractor))

    assert (run.error, run.records) == (None, [])
    (warning,) = run.warnings
    assert "named no download targets, so no records were read: there is no 'flies' in the body" in warning
    assert "(is it 'files'?); check `reports: AsyncRetriever.download_target_extractor`" in warning


def test_an_empty_list_of_targets_is_an_empty_report() -> None:
    reports = Reports()
    reports.looks(1, "ok", files=())

    run = reports.read(manifest())

    assert (run.error, run.records, run.warnings) == (None, [], [])


@pytest.mark.parametrize("cut", [False, True])
def test_a_target_that_is_named_twice_is_downloaded_once(*, cut: bool) -> None:
    reports = Reports()
    reports.looks(1, "ok", files=("/a", "/a", "/b", "/a"))
    document = manifest({"incremental_sync": CURSOR}, delete_requester=None)
    runs = []
    if cut:
        broken = reports.api.get("/b").returns(status=404)
        runs.append(reports.read(document))
        reports.api._routes.remove(broken)

    runs.append(reports.read(document, *runs))

    assert [r["id"] for run in runs for r in run.records] == ["a", "b"]
    assert "named 4 download targets, of which 2 are duplicates; each is downloaded once" in runs[0].warnings[0]


def test_a_download_without_the_field_of_its_records_is_no_silent_end() -> None:
    reports = Reports()
    reports.looks(1, "ok", files=("/a",))
    extractor = {"type": "DpathExtractor", "field_path": ["date"]}

    run = reports.read(manifest(download_extractor=extractor))

    assert run.records == []
    assert "returned no records: there is no 'date' in the body, whose fields are 'data'" in run.warnings[0]


def test_a_download_may_be_a_packed_csv_file_that_is_read_while_it_arrives() -> None:
    reports = Reports()
    reports.looks(1, "ok", files=("/a",))
    route = reports.api.get("/a").returns(body=gzip.compress(b"id,name\n1,x\n2,\n"))
    keep = {"type": "RecordFilter", "condition": "{{ record.id == '2' }}"}
    selector = {"type": "RecordSelector", "extractor": RECORDS, "record_filter": keep}

    run = reports.read(manifest(download_extractor={"type": "ResponseToFileExtractor"}, record_selector=selector))

    assert run.records == [{"id": "2"}]
    assert route.requests[0].stream


@pytest.mark.parametrize(
    ("decoder", "body"),
    [(None, b'[{"id": "1"}]'), ({"type": "CsvDecoder"}, b"id\n1"), ({"type": "JsonlDecoder"}, b'{"id": "1"}')],
)
def test_all_of_a_download_is_records_if_nothing_else_is_said(decoder: dict[str, Json] | None, body: bytes) -> None:
    reports = Reports()
    reports.looks(1, "ok", files=("/a",))
    reports.api.get("/a").returns(body=body)

    run = reports.read(manifest(download_extractor=None, download_decoder=decoder))

    assert run.records == [{"id": "1"}]


def test_a_download_that_is_a_page_of_an_outage_is_an_error_as_any_other_response() -> None:
    reports = Reports()
    reports.looks(1, "ok", files=("/a",))
    reports.api.get("/a").returns(body=b"<html>maintenance</html>")

    run = reports.read(manifest(download_extractor=None, download_decoder={"type": "CsvDecoder"}))

    assert isinstance(run.error, DecodeError), run.error
    assert "is not CSV" in str(run.error)


def test_headers_of_the_creation_lead_to_the_job() -> None:
    reports = Reports()
    reports.api.post("/jobs").returns(json=None, headers={"Location": "/jobs/1"})
    poll = asks("{{ creation_response['headers']['Location'] }}")

    run = reports.read(manifest(polling_requester=poll, delete_requester=None))

    assert run.error is None
    assert len(run.records) == 2


def test_a_word_with_two_meanings_is_refused() -> None:
    words = {"running": ["x"], "completed": ["x"], "failed": [], "timeout": []}

    run = Reports().read(manifest(status_mapping=words))

    assert isinstance(run.error, ManifestError)
    assert "'x' is already listed in running" in str(run.error)


def test_a_job_waits_until_another_stream_has_ended_its_own() -> None:
    reports, budget = Reports(), JobBudget(1)
    assert budget.try_start()

    def sleep(seconds: float) -> None:
        reports.time.sleep(seconds)
        if len(reports.time.slept) == 3:
            assert reports.asked == []
            budget.release()

    runtime = Runtime(transport=reports.api, sleep=sleep, clock=reports.time.clock, jobs=budget)
    run = read(ManifestSource(Manifest(manifest()), runtime), "reports")

    assert len(run.records) == 2
    assert budget.try_start()
