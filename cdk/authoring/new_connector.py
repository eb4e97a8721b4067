"""New connectors: writes a folder with a working connector, its tests, and files for editors and CI."""

import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from cdk.authoring.drafts.draft import Draft, report
from cdk.authoring.drafts.manifest_text import manifest_text
from cdk.authoring.drafts.merging import LOCK, Redraft, is_drafted, lock, redrafted
from cdk.authoring.manifest_schema import manifest_schema
from cdk.authoring.pipeline_schema import pipeline_schema
from cdk.base.errors import ConfigError
from cdk.base.values import to_json
from cdk.sources.discovery import is_installed

Language: TypeAlias = Literal["python", "yaml"]

_TEMPLATES = Path(__file__).parent / "templates"
_SUFFIX = ".txt"
_FILL = "$ cp config.example.json config.json                                  # and fill it in; git ignores it\n"
_CONFIG, _EXAMPLE = Path("config.json"), Path("config.example.json")
_NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
_DOT = re.compile(r"(?<![^/])dot_")
_HOLE = re.compile(r"@([a-zA-Z]+)@")


class Written(Struct, frozen=True):
    """The written files, in order, and notes about files that people had changed."""

    files: Sequence[Path]
    notes: Sequence[str]


def new_connector(name: str, language: Language, folder: Path, draft: Draft | None = None) -> Written:
    """Write a connector called `name` into a folder, which must be empty or missing, or hold an earlier draft.

    draft: makes the manifest, in place of the example; `language` is then `yaml`. Changes that people made since an
    earlier draft are preserved.

    Raises ConfigError: when the name is not valid for a connector, or the folder has other files.
    """
    words = {**_words(name, language), **({} if draft is None else _drafted(draft))}
    again = draft is not None and is_drafted(folder)
    if not again and folder.is_dir() and any(folder.iterdir()):
        raise ConfigError("the folder has files, expected an empty one; choose another name", path=str(folder))
    files = dict(_files(("both", language) if draft is None else ("both", language, "drafted"), words))
    notes: list[str] = []
    if draft is not None:
        redraft = redrafted(folder, files, adds=draft.adds) if again else Redraft(files, files, [])
        files, notes = {**redraft.files, LOCK: lock(redraft.locked)}, redraft.notes
    files |= _schemas(language)
    if draft is not None and not draft.config.required and not (folder / _CONFIG).exists():
        files[_CONFIG] = files[_EXAMPLE]
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return Written(sorted(files, key=lambda path: (len(path.parts) > 1, path.as_posix())), notes)


def _files(groups: Sequence[str], words: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Yield the files of the templates; a file of a later group replaces one of an earlier group."""
    for group in groups:
        for file in sorted((_TEMPLATES / group).rglob(f"*{_SUFFIX}")):
            path = _filled(file.relative_to(_TEMPLATES / group).as_posix().removesuffix(_SUFFIX), words)
            yield Path(_DOT.sub(".", path)), _filled(file.read_text(encoding="utf-8"), words)


def _schemas(language: Language) -> Mapping[Path, str]:
    schemas = {Path("schemas/pipeline.schema.json"): pipeline_schema()}
    if language == "yaml":
        schemas[Path("schemas/manifest.schema.json")] = manifest_schema()
    return {path: to_json(schema).decode() + "\n" for path, schema in schemas.items()}


def _drafted(draft: Draft) -> Mapping[str, str]:
    """Return the values of the template placeholders for a draft."""
    examples = [*draft.examples, *(each for stream in draft.streams for each in stream.examples)]
    responses = [
        {
            "method": each.method,
            "path": each.path,
            "params": each.params,
            **({"body": each.body} if each.body else {}),
            "json": each.json,
        }
        for each in examples
    ]
    return {
        "manifest": manifest_text(draft),
        "config": to_json(draft.config.example, indent=True).decode() + "\n",
        "responses": to_json(responses, indent=True).decode() + "\n",
        "report": "\n".join(report(draft)),
        "fill": _FILL if draft.config.properties else "",
        "title": " ".join(draft.title.split()),
        "first": draft.streams[0].name,
    }


def _filled(text: str, words: Mapping[str, str]) -> str:
    return _HOLE.sub(lambda hole: words[hole[1]], text)


def _words(name: str, language: Language) -> Mapping[str, str]:
    """Return the values of the template placeholders. Raises ConfigError: when the connector's name is not valid."""
    module = name.replace("-", "_")
    if not _NAME.fullmatch(name):
        raise ConfigError(f"found the name {name!r}, expected lower-case letters, digits, `-` and `_`, a letter first")
    if keyword.iskeyword(module) or is_installed(module):
        raise ConfigError(f"the name {name!r} is taken by a module of Python or of a package; choose another")
    python = language == "python"
    return {
        "name": name,
        "module": module,
        "Class": "".join(part.capitalize() for part in re.split("[-_]", name)),
        "option": f"--connector {module}.py" if python else "--manifest-path manifest.yaml",
        "schemas": "of streams, and those " if python else "",
        "infer": "--schemas schemas " if python else "",
        "source": f"connector: {module}.py" if python else "manifest: manifest.yaml",
        "files": f"config.example.json --connector {module}.py" if python else "manifest.yaml config.example.json",
        "install": '-e ".[dev]"' if python else "spark-cdk pytest",
    }
