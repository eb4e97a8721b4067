"""Several extractors over one response: the records of all, or those of the first that finds some."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from cdk.base.logs import logger
from cdk.base.values import JsonValue
from cdk.rest.http.messages import Response
from cdk.rest.records.extractor import CountedRecords, Extractor, Records, raw_count


@dataclass(frozen=True, slots=True)
class ExtractorGroup(Extractor):
    """The records of several extractors, which must be able to read the same response one after the other.

    first_match: those of the first that has any, instead of all. skip_empty: leave out records that are `{}`, with a
    warning; an extractor that has only such has none.

    Records that are left out count for the paginator (`raw_count`): the page is as full as the API made it.
    """

    extractors: Sequence[Extractor]
    first_match: bool = False
    skip_empty: bool = False

    def pages(self, response: Response) -> Iterator[Records]:
        dropped = 0  # records of extractors before the first match, as the API counts them
        for number, extractor in enumerate(self.extractors):
            matched = False
            for page in extractor.pages(response):
                records = self._checked(page, response, number)
                matched = matched or bool(records)
                if records or not self.first_match:
                    yield records
                else:
                    dropped += raw_count(records)
            if matched and self.first_match:
                return
        if self.first_match:
            yield CountedRecords([], dropped)

    def values(self, response: Response) -> Iterator[Sequence[JsonValue]]:
        for extractor in self.extractors:
            values = list(chain.from_iterable(extractor.values(response)))
            yield values
            if values and self.first_match:
                return

    def _checked(self, page: Records, response: Response, number: int) -> Records:
        """A page without empty records, if they are to be left out; `number`, from 0, is its extractor."""
        if not self.skip_empty or all(page):
            return page
        checked = CountedRecords([record for record in page if record], raw_count(page))
        logger.warning(
            "%s: %d empty records of extractor %d are left out; the body may say why they are empty",
            response.request,
            len(page) - len(checked),
            number + 1,
        )
        return checked
