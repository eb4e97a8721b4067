"""The MCP server and its tools: each does what the command of the same name does, and masks secrets."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Annotated, TypeAlias, TypeVar

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from cdk.authoring.drafts.draft import report
from cdk.authoring.new_connector import Language, new_connector
from cdk.base.run import one_run
from cdk.base.secret_masking import Secrets
from cdk.base.values import Json, properties_of
from cdk.cli.authoring.preview import preview_json
from cdk.cli.authoring.validate import check_files, validate_json
from cdk.cli.config_file import opened
from cdk.cli.mcp import answers
from cdk.cli.prove import proof_json, subject_of
from cdk.cli.state.command import status_json, statuses_of
from cdk.cli.sync.plan import plan_json
from cdk.cli.workspace import Workspace, masked, shown_error
from cdk.engine.first_pages import schema_with_inferred_fields
from cdk.lake.admin.diff import shown, values
from cdk.streams.source import named_stream
from cdk.testing.proving.proof import prove

Answer = TypeVar("Answer", bound=answers.Answer)

Connector: TypeAlias = Annotated[
    str, Field(description="Path of a manifest (.yaml) or of a connector in Python (.py).")
]
Config: TypeAlias = Annotated[str, Field(description="Path of the config (.json, .yaml); empty: an empty config.")]
Pipeline: TypeAlias = Annotated[str, Field(description="Path of the pipeline file (.yaml).")]
Description: TypeAlias = Annotated[str, Field(description="Path or URL of an OpenAPI description.")]
Stream: TypeAlias = Annotated[str, Field(description="Name of the stream.")]

_LOOP = """\
Builds connectors from APIs to Delta tables. The loop: `new` writes a folder; edit the manifest.yaml in it, as its
schemas/manifest.schema.json describes the language; `validate` until there is no mistake; `preview` a stream to see
requests, responses and records; `infer` the fields that its schema lacks; `prove` that killed syncs lose nothing;
`plan` a pipeline; `state` after a sync. Paths are relative to the folder of the server. Secrets are shown as ****:
do not ask for them; have the user write them into a config, or into a file .env and name them there as ${NAME}.
"""

_MOST_PAGES, _MOST_POSITIONS, _LISTED = 20, 20, 5
_LOOKS, _CALLS = ToolAnnotations(read_only_hint=True), ToolAnnotations(read_only_hint=True, open_world_hint=True)


def server(root: Path, *, trusted: bool) -> MCPServer:
    """Make the server of the working directory. trusted: connectors in Python may run."""
    mcp = MCPServer("spark-cdk", instructions=_LOOP)
    tools = Tools(Workspace(root, trusted=trusted))
    mcp.add_tool(tools.new, annotations=ToolAnnotations(destructive_hint=False))
    looking: Sequence[Callable[..., answers.Answer]] = (tools.validate, tools.plan, tools.state)
    calling: Sequence[Callable[..., answers.Answer]] = (tools.preview, tools.infer, tools.prove)
    for tool in looking:
        mcp.add_tool(tool, annotations=_LOOKS)
    for tool in calling:
        mcp.add_tool(tool, annotations=_CALLS)
    return mcp


class Tools:
    """The tools. One runs at a time, because each listens to the log of the connector that it reads."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace, self._lock = workspace, Lock()

    def new(
        self,
        name: str,
        language: Language = "yaml",
        folder: str = "",
        openapi: Description = "",
        curl: str = "",
        *,
        send: bool = False,
    ) -> answers.NewConnector:
        """Write a connector into a folder (default: its name): manifest or Python, tests, pipeline.

        openapi, curl: draft it from a description or a command line; send: also use its responses.
        """
        with self._answering() as secrets:
            target = self._workspace.path(folder or name)
            draft = self._workspace.draft(target, openapi=openapi, curl=curl, send=send, secrets=secrets)
            written = new_connector(name, "yaml" if draft else language, target, draft)
            guesses = [] if draft is None else [line for line in report(draft, _LISTED) if line]
            following = f"{'check the guesses' if draft else 'replace the API'} in {target}, then `validate`"
            files = [str(target / path) for path in written.files]
            answer = {"folder": str(target), "files": files, "notes": [*guesses, *written.notes]}
            return _answer(answers.NewConnector, answer, secrets, following)

    def validate(self, files: list[str], connector: str = "") -> answers.Validated:
        """Look for mistakes in manifests, configs, pipelines, catalogs and states; requests nothing.

        connector: checks configs, catalogs and states, if its manifest is not among the files.
        """
        with self._answering() as secrets:
            find = self._workspace.connector(connector, secrets) if connector else None
            paths = [self._workspace.file(file, secrets) for file in files]
            checked = validate_json(check_files(paths, find, secrets, trusted=self._workspace.trusted))
            following = (
                "`preview` a stream"
                if checked["valid"]
                else "correct each error at the place that it names, then `validate` again"
            )
            return _answer(answers.Validated, checked, secrets, following)

    def preview(
        self,
        connector: Connector,
        stream: Stream,
        config: Config = "",
        records: Annotated[int, Field(ge=1, le=50)] = 5,
        body: Annotated[int, Field(ge=0, le=2000, description="Characters of each body to show.")] = 500,
    ) -> answers.Previewed:
        """Read the first records of a stream: requests, responses, what was extracted, and why there is a next page.

        Writes nothing.
        """
        with self._answering() as secrets:
            find, file = self._workspace.connector(connector, secrets), self._workspace.optional(config, secrets)
            read = preview_json(find, stream, secrets, config=file, most=records, body=body, most_pages=_MOST_PAGES)
            if any(page["error"] is not None for page in read["pages"]):
                following = "correct what the last page's `error` reports; its requests show what was sent"
            elif not read["records"]:
                following = "there is no record: compare `path` and the responses with the extractor"
            else:
                following = "compare the records with the responses; then `infer`, and `prove`"
            return _answer(answers.Previewed, read, secrets, following)

    def infer(self, connector: Connector, stream: Stream, config: Config = "") -> answers.Inferred:
        """Read the first pages of a stream, and return its schema with the fields that it does not declare."""
        with self._answering() as secrets, one_run():
            find, file = self._workspace.connector(connector, secrets), self._workspace.optional(config, secrets)
            source, settings = opened(find, file, secrets)
            chosen = named_stream(source.open(settings), stream)
            schema, declared = schema_with_inferred_fields(chosen), chosen.json_schema()
            undeclared = [name for name in properties_of(schema) if name not in properties_of(declared)]
            following = "write the undeclared fields into the schema, then `validate`" if undeclared else "`prove`"
            answer = {"stream": stream, "undeclared": undeclared, "json_schema": schema}
            return _answer(answers.Inferred, answer, secrets, following)

    def plan(self, pipeline: Pipeline) -> answers.PlanAnswer:
        """Show what a sync of a pipeline would read and write, in figures; writes nothing."""
        with self._answering() as secrets:
            file = self._workspace.file(pipeline, secrets)
            planned = plan_json(file, secrets, trusted=self._workspace.trusted)
            failed = any(each["error"] is not None for each in planned["streams"])
            following = "correct the errors of the streams" if failed else f"the user may run `spark-cdk sync {file}`"
            return _answer(answers.PlanAnswer, planned, secrets, following)

    def prove(
        self,
        connector: Connector,
        config: Config = "",
        cassette: Annotated[str, Field(description="Path of a recording, to send no request; empty: read once.")] = "",
        streams: Annotated[list[str], Field(description="Names; empty: all.")] = [],  # noqa: B006 - only read
        kills: Annotated[int, Field(ge=0, le=40, description="How many syncs to kill.")] = 8,
    ) -> answers.Proven:
        """Kill syncs of a connector, resume each, and compare with an undisturbed one. Takes seconds per kill."""
        with self._answering() as secrets:
            find, file = self._workspace.connector(connector, secrets), self._workspace.optional(config, secrets)
            played = self._workspace.path(cassette) if cassette else None
            subject = subject_of(find, file, played, streams, secrets)
            proof = prove(subject, at_commits=kills - kills // 4, at_random=kills // 4)
            following = (
                "`plan` a pipeline"
                if proof.proven
                else "the `problems` list the rows; check where the state is ahead of them"
            )
            return _answer(answers.Proven, proof_json(proof), secrets, following)

    def state(self, pipeline: Pipeline, streams: list[str] = []) -> answers.States:  # noqa: B006 - only read
        """Show the states of a pipeline's streams after its syncs: of all streams, or of those that are named."""
        with self._answering() as secrets:
            file = self._workspace.pipeline(pipeline, secrets)
            statuses = [*map(status_json, statuses_of(file, streams))]
            following = (
                "the next sync resumes there, and reads a stream without a state from its start"
                if statuses
                else "no sync has committed anything yet"
            )
            answer = {"pipeline": file.name, "streams": [_with_positions(status) for status in statuses]}
            return _answer(answers.States, answer, secrets, following)

    @contextmanager
    def _answering(self) -> Iterator[Secrets]:
        """Yield the secrets to mask, and turn errors into ToolErrors without secrets."""
        secrets = Secrets()
        with self._lock:
            try:
                yield secrets
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a connector's own code; its text may hold secrets
                text = shown_error(error)
            else:
                return
            raise ToolError(secrets.mask(text))


def _answer(model: type[Answer], answer: Mapping[str, object], secrets: Secrets, following: str) -> Answer:
    fields = {name: value for name, value in answer.items() if name != "format"}
    return model.model_validate({**masked(fields, secrets), "next": following})


def _with_positions(status: Mapping[str, Json]) -> Mapping[str, object]:
    """The state of a stream with only its first positions, as there may be a million."""
    listed = values(status["state"])
    positions = [f"{where}: {shown(value)}" for where, value in islice(listed, _MOST_POSITIONS)]
    rest = {name: value for name, value in status.items() if name != "state"}
    return {**rest, "positions": positions, "further": sum(1 for _ in listed)}
