"""The server of the page: its views of pipelines, states and test reads, its access token, and its forms.

The forms save manifests and draft connectors; nothing else is written.
"""

import gc
import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TypeAlias
from urllib.parse import parse_qsl, urlencode

from deltalake.exceptions import DeltaError
from msgspec import to_builtins
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.templating import Jinja2Templates

from cdk.authoring.new_connector import new_connector
from cdk.base.errors import CdkError, ConfigError
from cdk.base.secret_masking import Secrets
from cdk.base.times.clock import assume_utc
from cdk.base.values import as_object, canonical, from_json, to_json
from cdk.cli.authoring.preview import preview_json
from cdk.cli.config_file import opened
from cdk.cli.lake.tables import facts_json, table_facts_of
from cdk.cli.state.command import Entry, entries_of, entry_json, status_json
from cdk.cli.state.options import PipelineFile
from cdk.cli.sync.past_runs import past_runs
from cdk.cli.ui.editing import MANIFESTS, EditedManifest, check_manifest, open_manifest, save_manifest
from cdk.cli.ui.folder_files import folder_files
from cdk.cli.ui.heat_map import heat_map
from cdk.cli.ui.timeline import timeline, what
from cdk.cli.workspace import Workspace, masked, shown_error
from cdk.lake.admin.commit_log import OlderRuns
from cdk.lake.admin.locate import StreamLocation
from cdk.streams.source import named_stream
from cdk.sync.reports.run_history import RunHistory

View: TypeAlias = Callable[[Request, Secrets], Mapping[str, object]]

_FILES = Path(__file__).parent
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_COMMITS, _RUNS, _STREAMS, _PARTITIONS, _MOVES = 50, 50, 20, 1000, 20
_RECORDS, _MOST_PAGES, _BODY = 20, 20, 2000
_COUNTED = 1000
"""How many moves are counted in addition to those that are shown."""


def application(root: Path, token: str, *, trusted: bool) -> Starlette:
    """Make the page of the working directory for clients with the token. trusted: connectors in Python may run."""
    views = Views(root, trusted=trusted)
    return Starlette(
        routes=[
            Route("/", views.page("pipelines.html", views.pipelines)),
            Route("/pipeline", views.page("pipeline.html", views.pipeline)),
            Route("/stream", views.page("stream.html", views.stream)),
            Route("/build", views.page("build.html", views.build)),
            Route("/draft", views.form("build.html", views.draft), methods=["POST"]),
            Route("/save", views.form("build.html", views.save), methods=["POST"]),
            Mount("/static", StaticFiles(directory=_FILES / "static")),
        ],
        middleware=[
            # Refuses other names that resolve to this host (DNS rebinding), so that no other site reaches the page.
            Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"]),
            Middleware(BaseHTTPMiddleware, dispatch=_for_who_knows(token)),
        ],
    )


def _for_who_knows(token: str) -> Callable[[Request, RequestResponseEndpoint], Awaitable[Response]]:
    """Make the check that lets in clients with the token: once in the URL, then in a cookie."""

    async def dispatch(request: Request, following: RequestResponseEndpoint) -> Response:
        cookie = f"spark-cdk-{request.url.port}"
        # Browsers treat another port of this host as the same site, so its forms would send the cookie, too.
        elsewhere = request.method == "POST" and request.headers.get("sec-fetch-site") != "same-origin"
        if elsewhere:
            response: Response = PlainTextResponse("only forms of this page are accepted", 403)
        elif hmac.compare_digest(request.query_params.get("token", "").encode(), token.encode()):
            response = RedirectResponse(request.url.path, 303)
            response.set_cookie(cookie, token, httponly=True, samesite="strict")
        elif hmac.compare_digest(request.cookies.get(cookie, "").encode(), token.encode()):
            response = await following(request)
        else:
            response = PlainTextResponse("open the address that `spark-cdk ui` has printed", 403)
        response.headers.update(_HEADERS)
        return response

    return dispatch


class Views:
    """The data that each page shows, as JSON for its template. Requests are handled one at a time."""

    def __init__(self, root: Path, *, trusted: bool) -> None:
        self._root, self._workspace, self._lock = root, Workspace(root, trusted=trusted), Lock()
        self._templates = Jinja2Templates(_FILES / "templates")
        self._templates.env.filters["json"] = lambda value: to_json(value, str, indent=True).decode()
        self._templates.env.filters["figure"] = lambda number: "?" if number is None else f"{number:,}"
        self._templates.env.filters["timestamp"] = lambda text: (text or "")[: len("2024-01-01T00:00:00")].replace(
            "T", " "
        )

    def page(self, template: str, view: View) -> Callable[[Request], Response]:
        """Make the endpoint that renders a view in its template, with secrets masked, or its error instead."""
        return lambda request: self._shown(template, view, request, dict(request.query_params))

    def form(
        self, template: str, answer: Callable[[Mapping[str, str], Secrets], Mapping[str, object]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Make the endpoint of a form: redirects to the `location` of its answer, or renders the answer or an error."""

        async def sent(request: Request) -> Response:
            fields = dict(parse_qsl((await request.body()).decode(), keep_blank_values=True))
            return await run_in_threadpool(
                self._shown, template, lambda _, secrets: answer(fields, secrets), request, fields
            )

        return sent

    def _shown(self, template: str, view: View, request: Request, query: Mapping[str, str]) -> Response:
        secrets = Secrets()
        with self._lock:
            context, status = _answered(view, request, secrets)
            # A state of a million partitions is 250 MB in a reference cycle, which would be freed much later.
            gc.collect()
        if "location" in context:
            return RedirectResponse(str(context["location"]), 303)
        answer = from_json(to_json({"query": query, **context}, partial(to_builtins, enc_hook=str)))
        plain = masked(as_object(answer), secrets)
        return self._templates.TemplateResponse(request, template, plain, status_code=status)

    def pipelines(self, _: Request, secrets: Secrets) -> Mapping[str, object]:
        """The pipelines of the folder; those that cannot be read, with the reason."""
        listed = []
        for path in folder_files(self._root).pipelines:
            try:
                settings = self._workspace.pipeline(str(path), secrets).settings
                listed.append({"file": path, "name": settings.name, "target": settings.target.path, "problem": ""})
            except Exception as error:  # noqa: BLE001 - connectors may run any code
                listed.append({"file": path, "name": "", "target": "", "problem": shown_error(error)})
        return {"pipelines": listed}

    def pipeline(self, request: Request, secrets: Secrets) -> Mapping[str, object]:
        """The tables of a pipeline, and its runs."""
        pipeline = self._workspace.pipeline(_required(request, "file"), secrets)
        answer: dict[str, object] = {"name": pipeline.name, "tables": [], "runs": [], "most_streams": _STREAMS}
        try:
            tables, answer["tables"] = _tables(pipeline)
        except (CdkError, DeltaError, OSError) as error:
            return {**answer, "tables_problem": shown_error(error)}
        try:
            answer["runs"], older = past_runs(tables, pipeline.target, pipeline.name, _RUNS, _older(request))
        except (CdkError, DeltaError, OSError, ValueError) as error:  # a log that is damaged
            return {**answer, "runs_problem": shown_error(error)}
        if older is not None:
            runs = ".".join(map(str, older.versions))
            answer["older"] = urlencode({"runs": runs, "before": older.before.isoformat()})
        return answer

    def stream(self, request: Request, secrets: Secrets) -> Mapping[str, object]:
        """The positions of a stream's partitions, and the commits that moved its state."""
        pipeline = self._workspace.pipeline(_required(request, "file"), secrets)
        admin, table = pipeline.admin(), pipeline.table([_required(request, "stream")])
        status, start = admin.status(table), _key(request.query_params.get("from", ""))
        before = None
        with suppress(ValueError):
            before = int(request.query_params.get("before", ""))
        entries = [*islice(entries_of(admin, table, before), _COMMITS + 1)]
        older = entries[_COMMITS - 1].commit.version if len(entries) > _COMMITS else None
        entries = entries[:_COMMITS]
        reports = RunHistory(pipeline.target, pipeline.name).by_sync({entry.commit.sync for entry in entries})
        return {
            "name": table.name,
            "status": status_json(replace(status, saved=status.saved and replace(status.saved, state=None))),
            "pipeline": pipeline.name,
            "map": heat_map(status.saved.state if status.saved else None, start, _PARTITIONS),
            "commits": [_commit(entry) for entry in entries],
            "older": older,
            "timeline": timeline(entries, reports, table.name),
        }

    def build(self, request: Request, secrets: Secrets) -> Mapping[str, object]:
        """A manifest, and a test read of one of its streams, or of a connector in Python: requests, records, schema."""
        query = {name: request.query_params.get(name, "") for name in ("connector", "config", "stream")}
        choice: dict[str, object] = {"manifests": folder_files(self._root).manifests}
        if not query["connector"]:
            return choice
        if Path(query["connector"]).suffix in MANIFESTS:
            path = self._workspace.file(query["connector"], secrets)
            checked = check_manifest(self._workspace, path, secrets)
            choice |= {"manifest": open_manifest(path), "problems": checked.problems}
            if not checked.valid:
                return choice
        try:
            return {**choice, **self._read(**query, secrets=secrets)}
        except (CdkError, SystemExit) as error:
            # An error of a manifest is shown beside its text, where the user can correct it.
            if "manifest" not in choice:
                raise
            return {**choice, "error": shown_error(error)}

    def _read(self, connector: str, config: str, stream: str, secrets: Secrets) -> Mapping[str, object]:
        find, file = self._workspace.connector(connector, secrets), self._workspace.optional(config, secrets)
        source, settings = opened(find, file, secrets)
        streams = source.open(settings)
        names = [each.name for each in streams]
        if not stream:
            return {"streams": names}
        schema = named_stream(streams, stream).json_schema()
        answer = preview_json(find, stream, secrets, config=file, most=_RECORDS, body=_BODY, most_pages=_MOST_PAGES)
        return {"streams": names, "answer": answer, "schema": schema}

    def save(self, fields: Mapping[str, str], secrets: Secrets) -> Mapping[str, object]:
        """Save a manifest and redirect to it; if it is refused, return its text again, with the problems."""
        path = self._workspace.file(fields["connector"], secrets)
        # Forms send CRLF as line ends.
        text, version = fields["text"].replace("\r\n", "\n"), fields["version"]
        edited, config = EditedManifest(text, version), None
        # This server cannot reveal secrets of a config that it may not read.
        with suppress(ConfigError):
            config = self._workspace.optional(fields.get("config", ""), secrets)
        try:
            checked = save_manifest(self._workspace, path, config, edited, secrets)
        except ConfigError as error:
            return {"manifest": edited, "error": shown_error(error)}
        if not checked.valid:
            return {"manifest": edited, "problems": checked.problems, "refused": True}
        return {"location": _build(**{name: fields.get(name, "") for name in ("connector", "config", "stream")})}

    def draft(self, fields: Mapping[str, str], secrets: Secrets) -> Mapping[str, object]:
        """Write a connector drafted from a curl command or a description, and redirect to its manifest."""
        folder = self._workspace.path(fields["name"])
        openapi, curl, send = fields["openapi"], fields["curl"], "send" in fields
        draft = self._workspace.draft(folder, openapi=openapi, curl=curl, send=send, secrets=secrets)
        if draft is None:
            raise ConfigError("found neither a curl command nor an OpenAPI description, expected one of them")
        new_connector(fields["name"], "yaml", folder, draft)
        config = str(folder / "config.json") if draft.config.example else ""
        return {"location": _build(connector=str(folder / "manifest.yaml"), config=config)}


def _build(**query: str) -> str:
    return f"/build?{urlencode(query)}#answer"


def _answered(view: View, request: Request, secrets: Secrets) -> tuple[Mapping[str, object], int]:
    """Return the data of a view, or its error, and the HTTP status."""
    try:
        return view(request, secrets), 200
    except (CdkError, SystemExit) as error:
        return {"error": shown_error(error)}, 400
    except Exception as error:  # noqa: BLE001 - a connector's own code, or a table that another program breaks meanwhile
        return {"error": shown_error(error)}, 500


def _tables(pipeline: PipelineFile) -> tuple[Sequence[StreamLocation], Sequence[Mapping[str, object]]]:
    """Return the readable tables of a pipeline, and the data that the page shows for all tables."""
    tables = pipeline.tables()
    if pipeline.target.on_disk is None:
        return tables, [{"stream": table.name, "link": table.exists, "note": "in a store"} for table in tables]
    _, facts = table_facts_of(pipeline)
    readable = {each.path for each in facts if each.version is not None}
    shown = [{**facts_json(each), "link": each.path in readable} for each in facts]
    return [table for table in tables if str(table.root) in readable], shown


def _commit(entry: Entry) -> Mapping[str, object]:
    """A commit, the user's edit behind it, and its first moves with the number of further ones, counted to a limit."""
    shown = entry_json(entry, _MOVES)
    further = sum(1 for _ in islice(entry.moves, _COUNTED + 1))
    return {**shown, "what": what(entry), "further": min(further, _COUNTED), "uncounted": further > _COUNTED}


def _required(request: Request, name: str) -> str:
    if name not in request.query_params:
        raise ConfigError(f"the address lacks {name!r}; start from the list of pipelines")
    return request.query_params[name]


def _key(text: str) -> str:
    """Normalize the key of a partition that a user typed as JSON; anything else is returned as it is, as a prefix."""
    with suppress(ValueError):
        return canonical(from_json(text))
    return text


def _older(request: Request) -> OlderRuns | None:
    """Parse the start of a page of runs from the parameters of its link; None for the first page."""
    try:
        versions = [int(text) for text in request.query_params.get("runs", "").split(".") if text]
        before = assume_utc(datetime.fromisoformat(request.query_params.get("before", ""))).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return OlderRuns(versions, before)
