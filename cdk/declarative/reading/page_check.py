"""PageCheck: detects errors that the API sends with a success status, and explains pages without records."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from cdk.base.errors import TransientError
from cdk.base.values import JsonObject, Record
from cdk.declarative.model.page_result import FetchedPage
from cdk.rest import Decoder, Response
from cdk.rest.errors.error_handler import ErrorHandler, ignores
from cdk.rest.errors.failed_body import (
    NO_RECORDS,
    error_instead,
    has_outage,
    is_error_page,
    partial_errors,
    reports_failure,
)
from cdk.rest.errors.status_errors import exchange_text
from cdk.rest.http.json_path import Extract, path
from cdk.rest.records.extractor import Extractor


@dataclass(slots=True, eq=False, repr=False)
class PageCheck:
    """Checks the pages of a stream: an overwrite would lose the rows after an error that passes for the last page."""

    extractor: Extractor
    decoder: Decoder
    error_handler: ErrorHandler

    key_paths: Sequence[Sequence[str]]
    """The primary key, in the form of the protocol."""

    _keys: Sequence[Extract] = field(init=False)

    def __post_init__(self) -> None:
        self._keys = [path(*key) for key in self.key_paths]

    def lone_object(self, records: Sequence[Record], response: Response) -> JsonObject | None:
        """Return the object found where records may be; None if it has part of the primary key, or is in a list.

        records: what the extractor returned. The result is a copy made before a filter or a transformation can change
        it. An object in a list is a record, whatever it says.
        """
        if records and self._has_key(records[0]):
            return None
        if self.decoder.streams:
            return dict(records[0]) if records else None
        body = self.decoder.decode(response)
        values = (path(*where)(body) for where in self.extractor.paths)
        return next((dict(value) for value in values if type(value) is dict and not self._has_key(value)), None)

    def refuse_error(self, page: FetchedPage, *, resumed: bool, first: bool) -> None:
        """Raise TransientError: when there are no records, or an error instead of one, and the API reports a failure.

        resumed: an earlier read saved the token of the page. first: no earlier page of the slice had records.
        """
        if page.raw > 1 and page.present:
            return
        response, places, lone = page.response, self.extractor.paths, page.lone_object
        if lone is not None:
            # Without a key, the first page may be any object, and a record of a later page may itself report a failure.
            failed = reports_failure(lone) if self.key_paths else not first and has_outage(lone)
        else:
            failed = not page.present and bool(places) and not self.decoder.streams
            failed = failed and is_error_page(self.decoder.decode(response), places, first=first)
        if not failed:
            return
        if ignores(self.error_handler, response):
            page.records, page.selected, page.tail = (), 0, ()
            return
        if lone is not None:
            raise error_instead(response, "a record with its primary key" if self.key_paths else "records", lone)
        where = " or ".join(" > ".join(names) or "the top of the body" for names in places)
        expired = "; if it stays, the saved page token has expired: use `spark-cdk state reset`" if resumed else ""
        raise TransientError(
            f"{exchange_text(response)}; found an error, expected records at {where}"
            f"{'' if first else ' as on the previous pages'}. Try again later{expired}; "
            f"{NO_RECORDS if first else NO_RECORDS.replace('no records', 'no more records')}"
        )

    def warning(self, page: FetchedPage) -> str:
        """Return the warning for a page that may lack records; empty if there is none."""
        if not page.response.ok:
            return ""
        if page.raw:
            return partial_errors(page.response)
        absence = self.extractor.absence(page.response)
        return absence and (
            f"{page.response.request} returned no records: there is {absence}; check `field_path`, "
            "unless the API omits empty lists"
        )

    def _has_key(self, record: Record) -> bool:
        """Whether a record has a value in any part of the primary key."""
        return any(key(record) is not None for key in self._keys)
