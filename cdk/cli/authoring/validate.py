"""`spark-cdk validate FILE...`: prints all mistakes in files; `spark-cdk schema KIND`: prints a kind's JSON Schema."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import click
from msgspec import Struct

from cdk import sources
from cdk.authoring.manifest_schema import manifest_schema
from cdk.authoring.pipeline_schema import pipeline_schema
from cdk.authoring.problems import Problem
from cdk.base.documents import read_document
from cdk.base.errors import ConfigError
from cdk.base.secret_masking import Secrets
from cdk.cli.authoring.file_checks import KINDS, FileChecks, kind_of
from cdk.cli.command_errors import plain_errors
from cdk.cli.input_files import read_documents
from cdk.cli.options import (
    FILE,
    FindSource,
    config_option,
    connector_option,
    custom_code_option,
    given_source,
    json_option,
    manifest_option,
)
from cdk.cli.output import print_json

_SCHEMAS = {"manifest": manifest_schema, "pipeline": pipeline_schema}


@click.command()
@click.argument("file", metavar="FILE...", nargs=-1, required=True, type=FILE)
@click.option("--kind", type=click.Choice(KINDS), help="Kind of the files. Default: detected from their content.")
@connector_option
@manifest_option
@config_option
@custom_code_option
@json_option
def validate(
    file: Sequence[Path],
    *,
    kind: str | None,
    connector: str | None,
    manifest_path: Path | None,
    config: Path | None,
    allow_custom_code: bool,
    as_json: bool,
) -> int:
    """Check each FILE for mistakes: a manifest, a pipeline, a config, a catalog or a state.

    Sends no request and writes nothing. The exit code is 1 if there is a mistake.
    """
    find = given_source(connector, manifest_path, trusted=allow_custom_code)
    secrets = Secrets()
    with plain_errors(secrets):
        checked = check_files(file, find, secrets, kind=kind, config=config, trusted=allow_custom_code)
    if as_json:
        print_json(**validate_json(checked))
    else:
        for each in checked:
            for problem in each.problems:
                click.echo(str(problem))
            if not each.problems:
                click.echo(f"{each.file}: a {each.kind} without mistakes")
    return 0 if all(each.valid for each in checked) else 1


class CheckedFile(Struct, frozen=True):
    """A file with its kind and its problems."""

    file: Path
    kind: str
    problems: Sequence[Problem]

    @property
    def valid(self) -> bool:
        """Whether no problem is certain, that is, there are only warnings."""
        return not any(problem.certain for problem in self.problems)


def check_files(
    files: Sequence[Path],
    find: FindSource | None,
    secrets: Secrets,
    *,
    kind: str | None = None,
    config: Path | None = None,
    trusted: bool = False,
) -> Sequence[CheckedFile]:
    """Find the mistakes in each file. A single manifest and a single config among them are used to check the others.

    find: finds a connector that is not among the files. trusted: Python code that a manifest names may run.
    """
    kinds = {path: kind or _kind(path) for path in files}
    manifests = [path for path in kinds if kinds[path] == "manifest"]
    if find is None and len(manifests) == 1:
        find = partial(sources.manifest_source, manifests[0], trusted=trusted)
    configs = [config] if config else [path for path in kinds if kinds[path] == "config"]
    checks = FileChecks(find, configs[0] if len(configs) == 1 else None, secrets, trusted=trusted)
    return [CheckedFile(path, kinds[path], checks.problems(path, kinds[path])) for path in kinds]


def _kind(file: Path) -> str:
    """Determine the kind of a file; by its suffix if it has no keys or cannot be read, and the check reports why."""
    is_yaml = file.suffix in {".yaml", ".yml"}
    try:
        value = read_document(file) if is_yaml else next(read_documents(file))[1]
    except ConfigError:
        value = None
    return "manifest" if is_yaml and not isinstance(value, Mapping) else kind_of(value)


def validate_json(checked: Sequence[CheckedFile]) -> Mapping[str, object]:
    """The object that `--json` prints."""
    return {
        "format": "spark-cdk-validate/1",
        "valid": all(each.valid for each in checked),
        "files": [
            {
                "file": str(each.file),
                "kind": each.kind,
                "errors": [problem.to_json() for problem in each.problems if problem.certain],
                "warnings": [problem.to_json() for problem in each.problems if not problem.certain],
            }
            for each in checked
        ],
    }


@click.command()
@click.argument("kind", type=click.Choice(tuple(_SCHEMAS)))
def schema(kind: str) -> int:
    """Print the JSON Schema of a KIND of files, for editors: `manifest` or `pipeline`."""
    print_json(**_SCHEMAS[kind]())
    return 0
