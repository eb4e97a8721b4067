"""AsyncRetriever: reads reports that the API prepares: creates a job, waits for it, downloads its result."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import chain

from msgspec.structs import replace

from cdk.base.errors import DecodeError, FatalError, ManifestError
from cdk.base.logs import FirstWarning
from cdk.base.values import JsonObject, JsonValue, json_kind
from cdk.declarative.components.records.extractors import DpathExtractor
from cdk.declarative.components.requests.pagination import NoPagination
from cdk.declarative.components.streams.partition_routers import PartitionRouters, listed_routers, router_of, sends
from cdk.declarative.components.streams.retrievers import RecordSelector
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext, Names
from cdk.declarative.model.request_builder import RequestBuilder
from cdk.declarative.model.request_plug_points import AnyDecoder, AnyExtractor, AnyPaginator, AnyRequester, Requester
from cdk.declarative.model.slice_names import slice_names, view
from cdk.declarative.model.stream_plug_points import AnyPartitionRouter, AnyRetriever, Router, SliceReader, StreamParts
from cdk.declarative.reading.page_reader import PageReader
from cdk.rest import Decoder, JsonDocument, Response
from cdk.rest.async_jobs import Job, JobBudget, JobReader, Status, response_values
from cdk.state.position import Checkpoint, Start
from cdk.state.slice import Partition, Slice
from cdk.streams.page import Item


class AsyncJobStatusMap(Component):
    """Maps the API's job statuses to their meanings.

    Example:
        type: AsyncJobStatusMap
        running: [pending, processing]
        completed: [ready]
        failed: [failed]
        timeout: [expired]
        skipped: [empty]
    """

    running: list[str]
    """Statuses of a job that is still running."""
    completed: list[str]
    """Statuses of a job whose result can be downloaded."""
    failed: list[str]
    """Statuses of a failed job, which is created again."""
    timeout: list[str]
    """Statuses of a job that the API gave up on; it is aborted and created again."""
    skipped: list[str] = []
    """Statuses of a job with nothing to download, which is not a failure."""

    def build(self, ctx: BuildContext) -> Mapping[str, Status]:
        """Return the meaning of each status. Raises ManifestError: when a status is in two lists."""
        meanings: dict[str, Status] = {}
        kinds: tuple[Status, ...] = ("running", "completed", "failed", "timeout", "skipped")
        for kind in kinds:
            for word in getattr(self, kind):
                if meanings.setdefault(word, kind) != kind:
                    where = ctx.where(self, kind)
                    why = f"{where}: {word!r} is already listed in {meanings[word]}; keep it in one of the lists"
                    raise ManifestError(why)
        return meanings


_UNSENT = (
    "{}: its `request_option` is not sent, as Airbyte sends none with a job, so each partition may get all records; "
    "write it into `creation_requester`, such as `request_parameters: {{id: \"{{{{ stream_partition['id'] }}}}\"}}`"
)


class AsyncRetriever(AnyRetriever):
    """Reads a slice from a report that the API prepares: creates a job, polls it until done, downloads the report.

    All requests after the creation can read the responses so far, as `creation_response` and `polling_response` (fields
    of the body, `headers` and `request`); a download can read its `download_target`. An interrupted read resumes with
    the same job if the stream has an `incremental_sync`. Without one, no state is kept within a slice: the next read
    creates a new job, and a sync that is to end waits for the running job.

    Example:
        type: AsyncRetriever
        creation_requester: {type: HttpRequester, url: "https://api.example.com/reports", http_method: POST}
        polling_requester: {type: HttpRequester, url: "https://api.example.com/reports/{{ creation_response['id'] }}"}
        status_extractor: {type: DpathExtractor, field_path: [status]}
        status_mapping: {type: AsyncJobStatusMap, running: [pending], completed: [ready], failed: [failed], timeout: []}
        download_target_extractor: {type: DpathExtractor, field_path: [urls]}
        download_requester: {type: HttpRequester, url: "{{ download_target }}"}
        record_selector:
          type: RecordSelector
          extractor: {type: DpathExtractor, field_path: []}
    """

    # The number of running jobs is known in one process only: see JobBudget.
    in_one_task = True

    record_selector: RecordSelector
    """Filters and casts the records. Its extractor is not used: see `download_extractor`."""
    status_mapping: AsyncJobStatusMap
    """What the API's job statuses mean."""
    status_extractor: AnyExtractor
    """Extracts the job status from the response to `polling_requester`."""
    creation_requester: AnyRequester
    """Creates a job. Only what this requester itself declares is sent, no request options of routers and of the cursor.
    """
    polling_requester: AnyRequester
    """Requests the status of the job, every 5 seconds."""
    download_requester: AnyRequester
    """Downloads a target."""
    download_target_extractor: AnyExtractor | None = None
    """Extracts the targets, which are strings, from the last response; without it, the only target is an empty string.
    """
    download_target_requester: AnyRequester | None = None
    """Requests the targets, if the response to `polling_requester` does not contain them."""
    download_extractor: AnyExtractor | None = None
    """Extracts the records from the download; by default the complete download is the records."""
    download_paginator: AnyPaginator | None = None
    """How further pages of a target are requested."""
    abort_requester: AnyRequester | None = None
    """Aborts a job that runs too long."""
    delete_requester: AnyRequester | None = None
    """Deletes a job that was downloaded; a read that is interrupted during the download then creates a new job."""
    polling_job_timeout: int | str | None = None
    """How long a job may run, in minutes; 60 by default."""
    failed_retry_wait_time_in_seconds: int | str | None = None
    """The wait before a failed job is created again, in seconds; none by default."""
    partition_router: PartitionRouters = None
    decoder: AnyDecoder | None = None
    """Decodes the responses about the job; JSON by default."""
    download_decoder: AnyDecoder | None = None
    """Decodes the download; JSON by default."""

    @property
    def routers(self) -> Sequence[AnyPartitionRouter]:
        return listed_routers(self.partition_router)

    def build(self, ctx: BuildContext, parts: StreamParts) -> SliceReader:
        """Build the reader. Raises ManifestError: when a status has two meanings, or a time is not a number."""
        router = router_of(self.partition_router, ctx)
        ctx.runtime.jobs = jobs = ctx.runtime.jobs or JobBudget()
        reader = JobReader(
            _Api(self, ctx, router, parts),
            budget=jobs,
            sleep=ctx.runtime.sleep,
            timeout=timedelta(minutes=ctx.number(self, "polling_job_timeout", 60.0)),
            failed_wait=ctx.number(self, "failed_retry_wait_time_in_seconds", 0.0),
            resumable=parts.incremental is not None,
        )
        return _Reader(router, reader)

    def downloader(self, ctx: BuildContext, parts: StreamParts) -> SliceReader:
        """Build the reader of one target's pages."""
        decoder = _decoder(self.download_decoder, ctx)
        extractor = self.download_extractor or DpathExtractor(field_path=[])
        # The result of a job often lies on a host that only the API knows. The credentials of this requester are
        # declared for that host; those of the other requesters are not sent there.
        requester = self.download_requester.build(replace(ctx, scope=None), decoder=decoder)
        if decoder.streams or extractor.streams:
            requester = _Streaming(requester)
        return PageReader(
            ctx=ctx,
            router=None,
            requester=requester,
            extractor=extractor.build(ctx, decoder),
            decoder=decoder,
            select=self.record_selector.select(ctx, parts),
            pages=(self.download_paginator or NoPagination()).build(ctx, decoder),
            incremental=None,
            changes_records=bool(parts.transforms) or self.record_selector.schema_normalization == "Default",
            only_first=False,
        )


class _Reader:
    """The SliceReader of an AsyncRetriever."""

    token_key = None

    def __init__(self, router: Router | None, jobs: JobReader) -> None:
        self.router, self._jobs = router, jobs

    def read(self, slice: Slice) -> Iterator[Item]:
        return self._jobs.read(slice)


class _Api:
    """The jobs of an API, as a manifest describes them. See JobApi."""

    def __init__(self, component: AsyncRetriever, ctx: BuildContext, router: Router | None, parts: StreamParts) -> None:
        decoder = _decoder(component.decoder, ctx)
        self._ctx = ctx
        self._meanings = component.status_mapping.build(ctx)
        self._where = ctx.where(component, "status_mapping")
        self._status = component.status_extractor.build(ctx, decoder)
        target = component.download_target_extractor
        self._target = None if target is None else target.build(ctx, decoder)
        self._target_path = ctx.where(component, "download_target_extractor")
        self._create, self._poll = component.creation_requester.build(ctx), component.polling_requester.build(ctx)
        self._find = _built(component.download_target_requester, ctx)
        self._abort, self._delete = _built(component.abort_requester, ctx), _built(component.delete_requester, ctx)
        self._pages = component.downloader(ctx, parts)
        unsent = any(map(sends, component.routers))
        self._unsent = _UNSENT.format(ctx.where(component, "partition_router")) if unsent else ""
        self._warn = FirstWarning()

    @property
    def deletes(self) -> bool:
        return self._delete is not None

    def create(self, slice: Slice) -> Response:
        self._warn(self._unsent)
        return self._create.client.send(self._create.draft(self._names(slice, {})).request())

    def status(self, job: Job) -> Status:
        response = self._send(self._poll, job)
        value = next(chain.from_iterable(self._status.values(response)), None)
        meaning = self._meanings.get(str(value))
        if meaning is None:
            known = ", ".join(f"{word!r}" for word in self._meanings)
            status = "no status" if value is None else f"the status {str(value)[:80]!r}"
            raise FatalError(f"{self._where}: {response.request} returned {status}, expected one of {known}")
        job.polled = response
        return meaning

    def targets(self, job: Job) -> tuple[Sequence[str], str]:
        if self._target is None:
            return [""], ""
        response = job.polled if self._find is None or job.polled is None else self._send(self._find, job)
        assert response is not None
        targets: list[str] = []
        for target in chain.from_iterable(self._target.values(response)):
            if not isinstance(target, str):
                why = f"{response.request}: found {json_kind(target)} as a download target, expected a string"
                raise DecodeError(why)
            targets.append(target)
        if not targets and (absence := self._target.absence(response)):
            return (), (
                f"{response.request} named no download targets, so no records were read: there is {absence}; "
                f"check `{self._target_path}`, unless the API omits empty lists"
            )
        different = list(dict.fromkeys(targets))
        if len(different) == len(targets):
            return targets, ""
        duplicates = len(targets) - len(different)
        return different, (
            f"{response.request} named {len(targets)} download targets, of which {duplicates} are duplicates; "
            "each is downloaded once"
        )

    def download(self, job: Job, target: str, page: Mapping[str, JsonValue] | None) -> Iterator[Item]:
        slice = _with_job_responses(job.slice, {**_job_responses(job), "download_target": target})
        return self._pages.read(replace(slice, start=Start() if page is None else Checkpoint(page)))

    def abort(self, job: Job) -> None:
        if self._abort is not None:
            self._send(self._abort, job).close()

    def delete(self, job: Job) -> None:
        if self._delete is not None:
            self._send(self._delete, job).close()

    def _send(self, requester: Requester, job: Job) -> Response:
        return requester.client.send(requester.draft(self._names(job.slice, _job_responses(job))).request())

    def _names(self, slice: Slice, responses: Mapping[str, JsonValue]) -> JsonObject:
        return {**slice_names(view(_with_job_responses(slice, responses), self._ctx.window)), "next_page_token": None}


class _Streaming:
    """A requester whose responses are read while they arrive."""

    def __init__(self, requester: Requester) -> None:
        self._requester, self.client, self.properties = requester, requester.client, requester.properties

    def draft(self, names: Names) -> RequestBuilder:
        draft = self._requester.draft(names)
        draft.stream = True
        return draft


def _built(component: AnyRequester | None, ctx: BuildContext) -> Requester | None:
    return None if component is None else component.build(ctx)


def _decoder(component: AnyDecoder | None, ctx: BuildContext) -> Decoder:
    return JsonDocument(lenient=True) if component is None else component.build(ctx)


def _job_responses(job: Job) -> JsonObject:
    """Return the API's responses about a job, by their names in expressions."""
    polled = {} if job.polled is None else {"polling_response": response_values(job.polled)}
    return {"creation_response": job.created, **polled}


def _with_job_responses(slice: Slice, responses: Mapping[str, JsonValue]) -> Slice:
    """Return the slice with responses about its job, which are names of their own like fields of a parent's record."""
    return replace(slice, partition=Partition(slice.partition, extra={**slice.extra, **responses}))
