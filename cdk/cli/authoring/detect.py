"""`spark-cdk detect STREAM`: finds the path of a stream's records and its pagination, from live responses."""

from collections.abc import Iterator
from pathlib import Path

import click

from cdk.authoring.detection import Detection, Trial, detect_pages
from cdk.authoring.drafts.manifest_text import manifest_part
from cdk.authoring.exchanges import learn_secrets
from cdk.base.errors import ConfigError
from cdk.base.secret_masking import Secrets
from cdk.base.values import JsonValue, as_object
from cdk.base.wording import counted
from cdk.cli.command_errors import messages_on_stderr
from cdk.cli.config_file import load_config
from cdk.cli.options import FindSource, config_option, json_option, with_egress, with_source
from cdk.cli.output import print_json
from cdk.declarative.source import ManifestSource
from cdk.sources.config_file import ConfigEvents

_WORKS = {True: "works", False: "does not work", None: "may work"}


@click.command()
@with_source
@click.argument("stream")
@config_option
@json_option
@with_egress
def detect(find: FindSource, stream: str, *, config: Path | None, as_json: bool) -> int:
    """Find in live responses where the records of a manifest's STREAM are, and how it is paginated.

    Each guess is tested by requesting a second page; up to some twenty requests are sent, and nothing is written. The
    exit code is 1 if no paginator is certain to work.
    """
    secrets = Secrets()
    with messages_on_stderr(secrets):
        source = find()
        if not isinstance(source, ManifestSource):
            raise ConfigError("`detect` tries paginators of manifests: name one by --manifest-path")
        source.events = ConfigEvents(secrets, config)
        detection = detect_pages(source, load_config(config, source, secrets), stream)
        learn_secrets(detection.exchanges, secrets)
        if as_json:
            print_json(**as_object(secrets.mask_json(_answer(stream, detection))))
        else:
            for line in _lines(stream, detection):
                click.echo(secrets.mask(line))
    return 0 if detection.best is not None and detection.best.works else 1


def _answer(stream: str, detection: Detection) -> JsonValue:
    return {
        "format": "spark-cdk-detect/1",
        "stream": stream,
        "field_path": list(detection.path),
        "records": len(detection.records),
        "tried": [
            {"what": each.guess.what, "works": each.works, "why": each.why, "retriever": dict(each.retriever)}
            for each in detection.trials
        ],
        "doubt": detection.doubt or None,
        "retriever": None if detection.best is None else _retriever(detection, detection.best),
    }


def _lines(stream: str, detection: Detection) -> Iterator[str]:
    count = counted(len(detection.records), "record")
    yield f"{stream}: {count} at {' > '.join(detection.path) or 'the top of the body'}"
    for other, objects in detection.others.items():
        yield f"there are {objects} objects at {other}, too"
    for each in detection.trials:
        yield f"{each.guess.what}: {_WORKS[each.works]}, {each.why}"
    if detection.best is None:
        yield (
            f"no paginator was found, though there is {detection.doubt}; see the API's documentation for the next page"
            if detection.doubt
            else "no paginator was found: the API may have a single page, or another way that it documents"
        )
        return
    yield "the stream in the manifest then has:"
    yield from manifest_part("retriever", _retriever(detection, detection.best), 2).splitlines()


def _retriever(detection: Detection, trial: Trial) -> dict[str, JsonValue]:
    extractor: JsonValue = {"type": "DpathExtractor", "field_path": list(detection.path)}
    return {"record_selector": {"extractor": extractor}, **trial.retriever}
