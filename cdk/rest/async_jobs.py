"""Asynchronous jobs: reports that an API prepares in the background. Creates, polls, downloads and deletes them.

The state can contain a running job: an interrupted read then resumes with the job that the earlier read created.
"""

import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from cdk.base.errors import FatalError, Forbidden, NotFound, ReadError, StaleToken
from cdk.base.logs import logger
from cdk.base.secret_names import looks_secret
from cdk.base.times.clock import Sleep, sleep
from cdk.base.values import JsonValue, as_object, canonical
from cdk.rest.errors.api_message import json_body
from cdk.rest.errors.status_errors import BadRequest
from cdk.rest.http.messages import Headers, Response
from cdk.state.position import Checkpoint, Position
from cdk.state.slice import Slice
from cdk.streams.page import Item, Page

Status: TypeAlias = Literal["running", "completed", "failed", "timeout", "skipped"]
"""The status of a job. skipped: the API has nothing to report; timeout: the API gave up."""

ATTEMPTS = 3
"""How often a job is created before the slice fails."""

POLL_SECONDS = 5.0
"""Seconds between two requests for the status of a job."""

SLOT_POLL_SECONDS = 0.1
"""Seconds between two checks whether another job may run, which send no request."""

_LONGEST_TOKEN = 10_000
_REJECTIONS = (NotFound, BadRequest, Forbidden)


class Job(Struct):
    """A job at an API.

    created: the response that created it, see `response_values`. token: what of that response a state may contain; None
    if it is secret or too long. polled: the last response to a status request. resumed: an earlier read created the job
    and downloaded `done` of its `count` targets, and all pages before `page` of the next target.
    """

    slice: Slice
    created: Mapping[str, JsonValue]
    token: JsonValue = None
    polled: Response | None = None
    resumed: bool = False
    done: int = 0
    count: int | None = None
    page: Mapping[str, JsonValue] | None = None


class JobApi(Protocol):
    """The operations on an API's jobs. All methods raise what sending a request raises. Thread-safe.

    deletes: whether `delete` removes a job, so that a later read cannot resume with it.
    """

    @property
    def deletes(self) -> bool: ...

    def create(self, slice: Slice) -> Response: ...

    def status(self, job: Job) -> Status:
        """Request the status of a job, and store the response in `job.polled`."""

    def targets(self, job: Job) -> tuple[Sequence[str], str]:
        """Return the targets to download of a completed job, in a stable order, and a warning or an empty string."""

    def download(self, job: Job, target: str, page: Mapping[str, JsonValue] | None) -> Iterator[Item]:
        """Yield the records of a target, in pages if it has page tokens. page: the token to resume at, None for all."""

    def abort(self, job: Job) -> None:
        """Stop a job whose result is no longer needed."""

    def delete(self, job: Job) -> None:
        """Remove a job after its records were read."""


class JobBudget:
    """How many jobs may run at once, for all streams of a source. Thread-safe.

    Each process has its own, so the slices of such streams are read in one task at a time (`Stream.in_one_task`).
    """

    def __init__(self, count: int = 1) -> None:
        self._lock, self._free = threading.Lock(), max(1, count)

    def try_start(self) -> bool:
        """Reserve a place for one more job. Returns False if the maximum number of jobs already runs."""
        with self._lock:
            free = self._free > 0
            self._free -= free
        return free

    def release(self) -> None:
        """Free the place of a job that no longer runs."""
        with self._lock:
            self._free += 1


class JobReader:
    """Reads a slice by a job: creates it, waits for it, downloads its targets one after the other, and deletes it.

    A job that fails or takes longer than `timeout` is created again, up to three attempts in all. The time is the sum
    of the sleeps, so that no clock is needed. failed_wait: seconds before a new attempt after a failed job.
    resumable: whether states within a slice are saved. A job that no state contains is aborted when the read is
    interrupted. A job that is deleted yields no checkpoints between its records: it is deleted before its last records
    are durable, and a read that could not resume with it would emit the durable ones twice.

    `read` raises FatalError: when the last attempt fails, too. It raises StaleToken: when the job of an earlier read no
    longer exists.
    """

    def __init__(
        self,
        api: JobApi,
        *,
        budget: JobBudget | None = None,
        sleep: Sleep = sleep,
        timeout: timedelta = timedelta(hours=1),
        failed_wait: float = 0.0,
        resumable: bool = True,
    ) -> None:
        self._api, self._budget, self._sleep = api, budget or JobBudget(), sleep
        self._timeout, self._failed_wait, self._resumable = timeout.total_seconds(), failed_wait, resumable

    def read(self, slice: Slice) -> Iterator[Item]:
        """Yield the records of a slice, with checkpoints at the job and after each of its targets."""
        reserved = self._wait_for_slot(slice)
        try:
            job = yield from self._completed(slice)
        finally:
            # Free the place before downloading: the stream that consumes the records may itself need a job to continue.
            if reserved:
                self._budget.release()
        if job is not None:
            yield from self._downloaded(job)
            self._dispose("deleted", job)

    def _wait_for_slot(self, slice: Slice) -> bool:
        waited = 0.0
        while not self._budget.try_start():
            if waited >= self._timeout:
                # Two jobs that wait for each other's records would otherwise wait forever.
                logger.warning("%s: waited %.0f s for another job to end; creating this one anyway", slice, waited)
                return False
            self._sleep(SLOT_POLL_SECONDS)
            waited += SLOT_POLL_SECONDS
        return True

    def _completed(self, slice: Slice) -> Generator[Item, None, Job | None]:
        """Create jobs until one completes, and return it; None when the API has nothing to report."""
        job = _resumed(slice, slice.start)
        ended = ""
        for attempt in range(1, ATTEMPTS + 1):
            if job is None:
                response = self._created(slice, last=attempt == ATTEMPTS)
                if response is None:
                    continue
                if not response.ok:
                    return None
                job = Job(slice, response_values(response), _token(response) if self._resumable else None)
            try:
                if job.token is not None and not job.resumed:
                    yield Page((), {"job": job.token}, runs_job=True)
                status = self._final_status(job)
            except BaseException:
                if job.token is None:
                    self._dispose("aborted", job)
                raise
            if status == "completed":
                return job
            if status == "skipped":
                return None
            ended = self._clean_up(job, status, attempt)
            job = None
        raise FatalError(
            f"the job for {slice} was created {ATTEMPTS} times, and the last one {ended}; check what the API reports "
            "about it"
        )

    def _created(self, slice: Slice, *, last: bool) -> Response | None:
        try:
            return self._api.create(slice)
        except ReadError as error:
            if last or error.failure_type == "config_error":
                raise
            logger.warning("the job for %s could not be created, trying again: %s", slice, error)
            return None

    def _final_status(self, job: Job) -> Status:
        waited = 0.0
        while (status := self._poll(job)) == "running":
            if waited >= self._timeout:
                logger.warning("the job for %s is still running after %.0f s", job.slice, waited)
                return "timeout"
            self._sleep(POLL_SECONDS)
            waited += POLL_SECONDS
        return status

    def _poll(self, job: Job) -> Status:
        try:
            return self._api.status(job)
        except _REJECTIONS as refused:
            if job.resumed:
                raise _job_missing(refused) from refused
            raise

    def _clean_up(self, job: Job, status: Status, attempt: int) -> str:
        """Clean up after a job that failed or timed out, and return which of the two for messages."""
        if status == "timeout":
            self._dispose("aborted", job)
        if job.done or job.page:
            # Another job may have other targets, so the progress in these cannot be carried over.
            raise StaleToken("the job that an earlier read created ended before all of it was downloaded")
        ended = "failed" if status == "failed" else "timed out"
        logger.warning("the job for %s %s (attempt %d of %d)", job.slice, ended, attempt, ATTEMPTS)
        if status == "failed" and attempt < ATTEMPTS and self._failed_wait:
            self._sleep(self._failed_wait)
        return ended

    def _downloaded(self, job: Job) -> Iterator[Item]:
        targets, warning = self._api.targets(job)
        position = _no_position if self._api.deletes else _position
        if job.count is not None and job.count != len(targets):
            raise StaleToken(f"the job had {job.count} targets in an earlier read and has {len(targets)} now")
        page = job.page
        if warning:
            yield Page((), position(job, job.done, len(targets), page) if targets else None, warning=warning)
        try:
            for i, target in islice(enumerate(targets), job.done, None):
                after = None if i + 1 == len(targets) else position(job, i + 1, len(targets))
                for item in self._api.download(job, target, page):
                    match item:
                        case Page(records, following, warning=warning, doubt=doubt):
                            at = after if following is None else position(job, i, len(targets), following)
                            yield Page(records, at, warning=warning, doubt=doubt)
                        case _:
                            yield item
                page = None
        except _REJECTIONS as refused:
            if job.resumed:
                raise _job_missing(refused) from refused
            raise

    def _dispose(self, what: Literal["aborted", "deleted"], job: Job) -> None:
        """Abort or delete a job. A failure is only logged: it costs nothing but space at the API."""
        try:
            (self._api.abort if what == "aborted" else self._api.delete)(job)
        except ReadError as error:
            logger.warning("the job for %s could not be %s: %s", job.slice, what, error)


def _job_missing(refused: ReadError) -> StaleToken:
    return StaleToken(f"the job that an earlier read created no longer exists: {refused}")


def _position(
    job: Job, done: int, count: int, page: Mapping[str, JsonValue] | None = None
) -> Mapping[str, JsonValue] | None:
    """Return the token to resume from, after the `done` targets or at a page of the next; None if the job has none."""
    if job.token is None:
        return None
    token = {"job": job.token, "done_targets": done, "targets": count}
    return token if page is None else {**token, "page": page}


def _no_position(*_: object) -> None:
    """Return no token to resume from, because the job may no longer exist by then."""


def response_values(response: Response) -> Mapping[str, JsonValue]:
    """Return a response as later requests refer to it: the fields of its JSON body, `headers`, and the `request`."""
    sent = response.request
    body = None if sent.body is None else sent.body.decode(errors="replace")
    request = {"method": sent.method, "url": sent.full_url, "headers": sent.headers, "body": body}
    return {**as_object(json_body(response)), "headers": response.headers, "request": request}


def _token(response: Response) -> JsonValue:
    """Return what a state may contain of the response that created a job; None if it has secrets or is too long."""
    headers = {name: text for name, text in response.headers.items() if not (looks_secret(name) or "cookie" in name)}
    token = {"body": as_object(json_body(response)), "headers": headers}
    text = canonical(token)
    return token if len(text) <= _LONGEST_TOKEN and response.request.hide(text) == text else None


def _resumed(slice: Slice, start: Position) -> Job | None:
    """Return the job in which an earlier read was interrupted, None if there was none.

    Raises StaleToken: when the state contains something other than a job.
    """
    match start:
        case Checkpoint(cursor={"job": {"body": dict(body), "headers": dict(headers)} as token, **progress}):
            return Job(
                slice,
                {**body, "headers": Headers(headers), "request": {}},
                token,
                resumed=True,
                done=progress.get("done_targets", 0),
                count=progress.get("targets"),
                page=progress.get("page"),
            )
        case Checkpoint(cursor=found):
            raise StaleToken(f"found the fields {sorted(found)} in the state of a slice, expected a job")
        case _:
            return None
