"""`spark-cdk validate FILE...`: what is wrong with files, all at once, each with its line."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from cdk import sources
from cdk.authoring.problems import Problem
from cdk.base.errors import ConfigError
from cdk.base.values import to_json
from cdk.cli.authoring.file_checks import KINDS, FileChecks, FindSource, kind_of_file
from cdk.cli.command_errors import plain_errors
from cdk.cli.options import (
    check_one_connector,
    config_option,
    connector_option,
    custom_code_option,
    json_option,
    manifest_option,
)
from cdk.sources.discovery import find_source


@click.command()
@click.argument("file", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--kind", type=click.Choice(KINDS), help="What the files are. Default: what is in them tells.")
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
    """Look for mistakes in each FILE: a manifest, a pipeline, a config, a catalog or a state.

    Nothing is requested and nothing written. The exit code is 1 where there is a mistake.
    """
    check_one_connector(connector, manifest_path)
    files = list(dict.fromkeys(file))
    kinds = {path: kind or _kind(path) for path in files}
    manifests = [manifest_path] if manifest_path else [path for path in files if kinds[path] == "manifest"]
    find: FindSource | None = None
    if connector is not None:
        find = lambda: find_source(connector)  # noqa: E731
    elif len(manifests) == 1:
        find = lambda: sources.manifest_source(manifests[0], trusted=allow_custom_code)  # noqa: E731
    configs = [config] if config else [path for path in files if kinds[path] == "config"]
    checks = FileChecks(find, configs[0] if len(configs) == 1 else None, trusted=allow_custom_code)
    with plain_errors(checks.secrets):
        problems_of = {path: checks.problems(path, kinds[path]) for path in files}
    if as_json:
        click.echo(to_json(_answer(problems_of, kinds), indent=True).decode())
    else:
        for path, problems in problems_of.items():
            for problem in problems:
                click.echo(str(problem))
            if not problems:
                click.echo(f"{path}: a {kinds[path]} without mistakes")
    return 1 if any(problem.certain for problems in problems_of.values() for problem in problems) else 0


def _kind(file: Path) -> str:
    """What a file is; what cannot be read is problems_of out when it is checked."""
    try:
        return kind_of_file(file)
    except ConfigError:
        return "manifest" if file.suffix in {".yaml", ".yml"} else "config"


def _answer(problems_of: Mapping[Path, Sequence[Problem]], kinds: Mapping[Path, str]) -> Mapping[str, object]:
    return {
        "format": "spark-cdk-validate/1",
        "valid": not any(problem.certain for problems in problems_of.values() for problem in problems),
        "files": [
            {
                "file": str(file),
                "kind": kinds[file],
                "errors": [problem.to_json() for problem in problems if problem.certain],
                "warnings": [problem.to_json() for problem in problems if not problem.certain],
            }
            for file, problems in problems_of.items()
        ],
    }
