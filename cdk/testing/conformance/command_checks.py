"""Checks of a connector's commands: their statuses, exit codes and errors, and that they never write a secret."""

from collections.abc import Iterable, Sequence
from itertools import product

from cdk.base.values import FieldValue, to_json
from cdk.testing.conformance.faults import Failing
from cdk.testing.conformance.resume_checks import compare
from cdk.testing.conformance.subject import CommandResult, Nonconforming, SuiteSubject

__tracebackhide__ = True  # see `cdk.testing.conformance.subject`


def check_statuses(subject: SuiteSubject) -> None:
    """Check that a read ends with exit code 0, and that each stream ends with a state and the status COMPLETE."""
    answer = subject.command("read")
    for name in subject.stream_names:
        statuses = _statuses(answer, name)
        if answer.code or statuses[:1] != ["STARTED"] or statuses[-1:] != ["COMPLETE"]:
            raise Nonconforming(
                f"`read` ends with exit code {answer.code}, the stream with the statuses {statuses}",
                where=name,
                expected="exit code 0, from STARTED to COMPLETE",
                advice="run `spark-cdk read` with this config, and correct what it reports",
            )
        kinds = [message["type"] for message in _of_stream(answer, name)]
        if kinds[-1:] not in ([], ["STATE"]):
            raise Nonconforming(
                "no state follows the last record",
                where=name,
                expected="a state before COMPLETE",
                advice="leave the messages to the kit, which emits one",
            )


def check_failures(subject: SuiteSubject) -> None:
    """Check that a read reports an API failure at any request, and that every COMPLETE stream has all its records."""
    first, reading = subject.first, Failing(subject.api(), fails_after=None)
    subject.read(api=reading)
    points = product(sorted({0, reading.requests // 2, reading.requests - 1} - {-1}), (False, True))
    # Usually right after a first page: the state then covers the records of that page and nothing more.
    within = list(reading.retried_at.values())[len(reading.retried_at) // 2 :][:1]
    for fails_after, empty in (*points, *((number, False) for number in within)):
        answer = subject.command("read", api=Failing(subject.api(), fails_after=fails_after, empty=empty))
        what = "500 and an empty page" if empty else "500"
        why = f"an API that answers {what} after {fails_after} of {reading.requests} requests"
        failed, names = False, subject.stream_names
        for name in names:
            complete = _statuses(answer, name)[-1:] == ["COMPLETE"]
            failed = failed or not complete
            records, expected = len(answer.records_of(name)), len(first.records_of(name))
            if complete and records < expected:
                raise Nonconforming(
                    f"the stream is COMPLETE with {records} of {expected} records, with {why}",
                    where=name,
                    expected="INCOMPLETE and an error, so that the rest is read later",
                    advice="let errors propagate: neither catch them nor treat a failed response as an empty one",
                )
        _check_rest(subject, names, answer, why)
        errors = [m for m in answer.of("TRACE") if m["trace"]["type"] == "ERROR"]
        if failed and not (answer.code and errors):
            raise Nonconforming(
                f"`read` ends with exit code {answer.code} and {len(errors)} errors, with {why}",
                where=subject.name,
                expected="exit code 1 and a TRACE of type ERROR",
                advice="raise errors of `cdk`, and leave exiting the process to the kit",
            )


def _check_rest(subject: SuiteSubject, names: Iterable[str], failed: CommandResult, why: str) -> None:
    """Check that a read from the last states of a failed read returns the remaining records."""
    rest = subject.read(state=failed.state_messages, why=f"a read after {why}")
    for name in names:
        read = [*failed.records_of(name), *rest.records_of(name)]
        compare(subject.first.records_of(name), read, name, f"a read after {why}")


def check_secrets(subject: SuiteSubject) -> None:
    """Check that no log, error, state or catalog has a secret of the config or a request, whatever the API answers."""
    never_fails = Failing(subject.api(), fails_after=None)
    apis: list[tuple[Failing, str, Sequence[str]]] = [(never_fails, "", ("spec", "check", "discover", "read"))]
    # With status 200 the connector itself fails on such a body, and writes its own error message.
    for status in (401, 500, 200):
        why = f", with an API that answers {status} and repeats the request"
        apis += [(Failing(subject.api(), fails_after=count, status=status), why, ("check", "read")) for count in (0, 1)]
    runs = [(f"{name}{why}", subject.command(name, api=api)) for api, why, names in apis for name in names]
    secrets = subject.secrets(value for api, _, _ in apis for value in api.secrets)
    for why, answer in runs:
        records = {to_json(message) for message in answer.of("RECORD")}
        lines = [line for line in answer.text.splitlines() if line.encode() not in records and '"RECORD"' not in line]
        for line in lines:
            if secret := next((form for form in secrets if form in line), None):
                shown = line.replace(secret, "<the secret>")[:300]
                raise Nonconforming(
                    f"a secret of the config or of a request is in what `{why}` writes: {shown}",
                    where=subject.name,
                    expected="no secret in any message and on standard error",
                    advice="use the log and the errors of `cdk`, which mask the config's secrets, in place of print; "
                    "keep secrets out of cursors and page tokens",
                )


def _of_stream(answer: CommandResult, name: str) -> Iterable[FieldValue]:
    """Yield the records and states of a stream, in order."""
    for message in answer.messages:
        match message:
            case {"type": "RECORD", "record": {"stream": stream}} if stream == name:
                yield message
            case {"type": "STATE", "state": {"stream": {"stream_descriptor": {"name": stream}}}} if stream == name:
                yield message


def _statuses(answer: CommandResult, name: str) -> list[str]:
    traces = [m["trace"].get("stream_status") for m in answer.of("TRACE")]
    return [t["status"] for t in traces if t and t["stream_descriptor"]["name"] == name]
