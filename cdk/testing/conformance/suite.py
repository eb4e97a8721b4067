"""ConnectorSuite: the tests that every connector must pass, to be inherited."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import ClassVar

from cdk.base.values import FieldValue
from cdk.rest import Transport
from cdk.testing.cassettes.replay import Cassette
from cdk.testing.conformance.command_checks import check_failures, check_secrets, check_statuses
from cdk.testing.conformance.config_checks import check_bad_configs, check_good_config, check_spec
from cdk.testing.conformance.record_checks import (
    check_cursors,
    check_declared,
    check_discover,
    check_keys,
    check_schema,
    check_warnings,
)
from cdk.testing.conformance.resume_checks import check_resume, check_second_read, check_threads, check_windows
from cdk.testing.conformance.subject import SuiteSubject
from cdk.testing.conformance.sync_checks import check_spark, check_sync
from cdk.testing.run import Connector, connector
from cdk.testing.simulation import MockClock

__tracebackhide__ = True  # see `cdk.testing.conformance.subject`


class ConnectorSuite:
    """The tests that every connector must pass. Subclass it, and name a connector and a config.

    class TestBlog(ConnectorSuite):
        source = Blog
        config = {"token": "s3cret"}

        def transport(self):
            return blog_api()

    source: what `cdk.testing.read` accepts: a Source, the path of a manifest, or a name for `--connector`.
    config: a valid config. bad_configs: configs that `check` must refuse, in addition to those derived from the spec.
    now: the present of all reads, such as "2024-05-01T00:00:00Z"; default: when the first test runs.
    may_be_empty: streams that may have no records. may_warn: streams for which a first read may give warnings.
    cassette: a file of `spark-cdk record` that replaces the network; by default its config and time are used, too.

    Records are read many times: once from each state, and with an API that starts to fail at some request.
    """

    source: ClassVar[Connector]
    config: ClassVar[Mapping[str, FieldValue]] = {}
    bad_configs: ClassVar[Sequence[Mapping[str, FieldValue]]] = ()
    now: ClassVar[str | None] = None
    may_be_empty: ClassVar[Sequence[str]] = ()
    may_warn: ClassVar[Sequence[str]] = ()
    cassette: ClassVar[Path | str | None] = None

    def transport(self) -> Transport | None:
        """Return the API as it is before the first request, such as a new MockApi; None for the network."""
        return None if self.cassette is None else Cassette(self.cassette)

    @property
    def subject(self) -> SuiteSubject:
        """The connector under test, shared by all tests of the class, so that what they all need is read only once."""
        return _subject(type(self))  # type: ignore[arg-type] # mypy mistakes the class for an instance

    @property
    def readable(self) -> SuiteSubject:
        """The subject, after its first read succeeded. Raises Nonconforming: when that read fails."""
        _ = self.subject.first
        return self.subject

    def test_the_spec_describes_the_config_and_marks_secrets(self) -> None:
        check_spec(self.subject)

    def test_the_check_accepts_the_config_while_the_api_does(self) -> None:
        check_good_config(self.subject)

    def test_bad_configs_are_refused_by_name(self) -> None:
        check_bad_configs(self.readable, list(self.bad_configs))

    def test_discover_is_the_same_each_time(self) -> None:
        check_discover(self.subject)

    def test_each_stream_brings_what_it_declares(self) -> None:
        check_declared(self.readable, self.may_be_empty)

    def test_the_last_page_is_the_last_and_nothing_is_warned_of(self) -> None:
        check_warnings(self.subject, self.may_warn)

    def test_records_fit_their_schema(self) -> None:
        check_schema(self.readable)

    def test_primary_keys_are_there_and_unique(self) -> None:
        check_keys(self.readable)

    def test_cursors_grow_up_to_the_last_record(self) -> None:
        check_cursors(self.readable)

    def test_every_state_can_be_resumed_from(self) -> None:
        check_resume(self.readable)

    def test_a_second_read_finds_nothing_new(self) -> None:
        check_second_read(self.readable)

    def test_windows_leave_nothing_out(self) -> None:
        check_windows(self.readable)

    def test_slices_may_be_read_at_once(self) -> None:
        check_threads(self.readable)

    def test_a_sync_writes_what_is_read(self) -> None:
        check_sync(self.readable)

    def test_a_read_ends_with_its_statuses_and_exit_code(self) -> None:
        check_statuses(self.readable)

    def test_an_api_that_fails_is_never_taken_for_an_empty_one(self) -> None:
        check_failures(self.readable)

    def test_no_secret_is_written_anywhere(self) -> None:
        check_secrets(self.readable)


class SparkConnectorSuite(ConnectorSuite):
    """The same tests, and one that starts a local Spark, which needs Java and takes some seconds."""

    def test_tasks_on_spark_bring_the_same(self) -> None:
        check_spark(self.readable)


@cache
def _subject(suite: type[ConnectorSuite]) -> SuiteSubject:
    tests = suite()
    config, clock = tests.config, MockClock(tests.now)
    if tests.cassette is not None:
        cassette = Cassette(tests.cassette)
        config, clock = config or cassette.config, clock if tests.now else cassette.clock
    return SuiteSubject(connector(tests.source), config, tests.transport, clock)
