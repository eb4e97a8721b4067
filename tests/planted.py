"""Plants bugs, one at a time, in a copy of the tree and shows which test catches each: `python tests/planted.py`.

Words behind the command choose the bugs whose promise or file contains one of them. Each breaks a promise that users
rely on. A bug that no test catches is a missing test, and the exit code is 1.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
CONTRACTS = {
    "streams/checkpoint/partitioned": "tests/contract/test_checkpoint_readers.py",
    "streams/checkpoint/reader": "tests/contract/test_checkpoint_readers.py",
    "streams/checkpoint/windows": "tests/contract/test_checkpoint_readers.py",
    "engine/thread_pool": "tests/contract/test_executors.py",
}
"""The tests of a module that are not in the file that mirrors it."""

AT_ONCE = "self._parents[parent.name] = parent.state"
EARLY = """                if page.position is not None:
                    reader.observe(slice, page.position, page.edge)
                    if (checkpoint := reader.get_checkpoint()) is not None:
                        yield checkpoint
"""


class Bug(NamedTuple):
    """A promise, and the one text of a file whose replacement breaks it.

    tests: the file whose tests catch it, where it does not mirror the module.
    """

    promise: str
    file: str
    old: str
    new: str
    tests: str = ""


BUGS = [
    Bug("progress never passes what is still open", "state/ack", "self._tickets[0].closed", "len(self._tickets) > 1"),
    Bug(
        "a new partition starts at its beginning", "state/stream_state", "get(WHOLE) or", "get(min(self.positions)) or"
    ),
    Bug("a state is said once", "state/manager", "if is_same(blob, self._blobs.get(descriptor)) and", "if False and"),
    Bug("a cut window resumes at its page", "state/position_json", 'blob["cursor"] = dict(cursor)', "pass"),
    Bug("what closed early stays closed", "state/position_json", 'blob["done"] = True', "pass"),
    Bug(
        "tables remember the edge's records",
        "state/position_json",
        'for name, known in (("keys", edge.keys), ',
        "for name, known in (",
    ),
    Bug(
        "a shared cursor survives a cut",
        "state/wire",
        "StoredPositions.of(positions).texts, exact",
        "StoredPositions.of(positions).updated({WHOLE: None}).texts, exact",
    ),
    Bug(
        "a state is given once",
        "streams/checkpoint/partitioned",
        "self._changed = False\n        return replace",
        "return replace",
    ),
    Bug("a state is given once per window", "streams/checkpoint/reader", "self._reported = self.position\n", "\n"),
    Bug(
        "a window that closed early is kept",
        "streams/checkpoint/windows",
        "opened[-1].position == Start()",
        "opened[-1].position.done",
    ),
    Bug(
        "a new child starts at its beginning",
        "streams/checkpoint/partitioned",
        "position = position or self._positions.get(WHOLE) or",
        "position = position or self._positions.get(next(iter(self._state.positions), WHOLE)) or",
    ),
    Bug(
        "edges of windows are merged",
        "streams/checkpoint/repeated_records",
        "        for edge in (first, second)\n",
        "        for edge in (second,)\n",
        "tests/streams/checkpoint/test_windows.py",
    ),
    Bug(
        "a cut ordered window keeps its memory",
        "streams/checkpoint/windows",
        "known = merged(self._cursor, slice.edge and moved(self._cursor, slice.edge, edge.value), edge)",
        "known = edge",
    ),
    Bug(
        "parents wait",
        "streams/checkpoint/partitioned",
        "self._queue.close(self._queue.open(_Member(None, parent)))",
        AT_ONCE,
    ),
    Bug(
        "gaps between windows are read",
        "streams/checkpoint/windows",
        "self._enqueue(OpenedWindow(gap, Start()))",
        "pass",
    ),
    Bug("a moment belongs to one window", "streams/datetime_cursor", "moment < until)", "moment <= until)"),
    Bug("a number belongs to one window", "streams/count_cursor", "number < until", "number <= until"),
    Bug("a moment of another zone is the same one", "base/times/clock", "moment.astimezone(UTC)", "moment"),
    Bug("no two windows are written alike", "streams/datetime_cursor", "self._as_written(upper)", "upper"),
    Bug(
        "states of reads at once do not mix",
        "streams/state_mixin",
        "context.run(_slice_context.set, slice_context)",
        "_slice_context.set(slice_context)",
    ),
    Bug("a refused token restarts its slice", "streams/read_slice", "replace(slice, start=Start())", "slice"),
    Bug("a page has only what its window owns", "streams/read_slice", "cursor.owns(window, r[field])", "True"),
    Bug(
        "records come before their state",
        "engine/read",
        "                if page.records:\n",
        EARLY + "                if page.records:\n",
    ),
    Bug(
        "a failing read gives its state first", "engine/read", "yield checkpoint\n        raise", "pass\n        raise"
    ),
    Bug(
        "threads lose no slice",
        "engine/thread_pool",
        "self._work.put(reading)",
        "self._busy == 2 or self._work.put(reading)",
    ),
    Bug("threads swallow no error", "engine/thread_pool", "raise item.error", "pass"),
    Bug("a slow consumer holds readers back", "engine/thread_pool", "_Bounded(concurrency.ceiling)", "_Bounded(999)"),
    Bug("work is taken only when it can be read", "engine/thread_pool", "self._busy < most and", "self._busy < 99 and"),
    Bug(
        "a piece goes on in its own context",
        "engine/thread_pool",
        "self._context.run(next, self._pages, None)",
        "next(self._pages, None)",
    ),
    Bug("a piece that waits goes to a worker", "engine/thread_pool", "own.share() < _ALONE", "own.share() < 0"),
    Bug("a busy piece is read by the caller", "engine/thread_pool", "self._back.set()", "pass"),
    Bug("what is laid aside is gone on with", "engine/thread_pool", "self._paused.append(item)", "item.close()"),
    Bug(
        "what is laid aside is closed with the read",
        "engine/thread_pool",
        "for reading in self._paused:",
        "for reading in ():",
        "tests/engine/test_thread_pool.py",
    ),
    Bug(
        "what nobody makes use of is not learned from",
        "base/process/concurrency",
        "elif reading >= self.level:",
        "else:",
    ),
    Bug("complaints make it read less", "base/process/concurrency", "self._go(self.level // 2, reading)\n", "pass\n"),
    Bug(
        "a level that brought a complaint is shunned",
        "base/process/concurrency",
        "self._since <= self._shun",
        "False",
    ),
    Bug(
        "a further try is a complaint",
        "rest/client",
        "            note_complaint()",
        "            pass",
        "tests/engine/test_thread_pool.py",
    ),
    Bug(
        "slices at once have streams of their own",
        "streams/stream",
        "self._stream.beside()",
        "self._stream",
        "tests/streams/test_stream_copies.py",
    ),
    Bug(
        "slices at once in a task have streams of their own",
        "sync/tasks/bundle_task",
        "target = replace(targets[piece.target], stream=stream)",
        "target = targets[piece.target]",
    ),
    Bug(
        "the next task begins where one got to",
        "sync/tasks/tasks_at_once",
        "level=self.learned.level if level == began else level",
        "level=1",
    ),
    Bug(
        "tasks together read no more than the pipeline says",
        "sync/loop/bundles",
        "- len(self._running), unused))",
        "- len(self._running), 99))",
        "tests/sync/tasks/test_tasks_at_once.py",
    ),
    Bug(
        "a stream's limit holds over all tasks",
        "sync/loop/bundles",
        "return max(1, limit) - sum(",
        "return max(1, limit) - 0 * sum(",
        "tests/sync/tasks/test_tasks_at_once.py",
    ),
    Bug(
        "streams with limits take turns with the others",
        "sync/loop/bundles",
        "(self._tasks_of(queue), queue.turn)",
        "self._tasks_of(queue)",
        "tests/sync/tasks/test_tasks_at_once.py",
    ),
    Bug(
        "copies of a stream parse for themselves",
        "rest/http_stream",
        "stream._retriever = None  # noqa: SLF001 - its own",
        "pass",
        "tests/streams/test_stream_copies.py",
    ),
    Bug(
        "a stream may be read one slice at a time",
        "engine/read",
        "most=stream.max_concurrency",
        "most=None",
        "tests/streams/test_stream_copies.py",
    ),
    Bug(
        "what is closed is closed in its context", "engine/thread_pool", "self._context.run(self._pages.close)", "pass"
    ),
    Bug("typed records lie where they should", "base/records/typed_json_lines", ") == _MARK", ") is not None"),
    Bug(
        "typed records are a whole list",
        "base/records/typed_json_lines",
        "record_type.list.decode(text) if",
        "record_type.list.decode(text[: text.index(b'}') + 1] + b']') if",
    ),
    Bug(
        "objects are given once",
        "base/records/typed_json_lines",
        "objects, self._objects = self._objects, None",
        "objects = self._objects",
    ),
    Bug(
        "changed records are objects no more",
        "base/records/typed_json_lines",
        "self._lines, self._lists, self._objects = None, (), None",
        "pass",
    ),
    Bug("ids of rows go on over a thousand", "lake/arrow/record_batches", "first % 1000 * width", "0"),
    Bug("a half-written archive is not used", "spark/cluster/class_data_sharing", "any(file.read(4))", "True"),
    Bug("what a run keeps ends with it", "base/run", "RunScope() if current_run() is _OF_THE_PROCESS else ", ""),
    Bug("what is kept is made once in a run", "base/run", "if make not in self._shared:", "if True:"),
    Bug("a worker goes on with the run it knows", "base/run", "@lru_cache(maxsize=2)\n", ""),
    Bug(
        "answers are those of the run",
        "rest/cached_transport",
        "current_run().own(_OfRun)",
        '__import__("cdk.base.run").base.run._joined("").own(_OfRun)',
    ),
    Bug(
        "a filter narrows only who asks for it",
        "spark/datasource/source",
        "if not options.push_down:",
        "if False:",
        "tests/spark/datasource/test_filter_pushdown.py",
    ),
    Bug(
        "a token is given to all tasks",
        "rest/auth/tokens",
        "if key not in self._states:",
        "if True:",
    ),
    Bug(
        "a refused token is let go of",
        "rest/auth/tokens",
        "state.access_token, state.refusals = None, state.refusals + 1",
        "pass",
    ),
    Bug(
        "what could not be stored is stored later",
        "rest/auth/tokens",
        "self._unsaved[key] = seal(value, secret)",
        "self.store.save(key, seal(value, secret))",
    ),
    Bug(
        "a task never uses up a refresh token",
        "rest/auth/token_owner",
        "        if not issued.rotates:\n            return None",
        "        return None",
        "tests/rest/auth/test_tokens.py",
    ),
    Bug(
        "a token is checked to be storable before it is spent",
        "rest/auth/token_owner",
        "run_tokens().check(self.key)",
        "pass",
        "tests/rest/auth/test_tokens.py",
    ),
    Bug(
        "a sync goes on with the stored token",
        "rest/auth/token_owner",
        "state.refresh_token, state.rotated = str(stored",
        "_, state.rotated = str(stored",
        "tests/rest/auth/test_tokens.py",
    ),
    Bug(
        "a rotated token is stored before it is used",
        "rest/auth/token_owner",
        "run_tokens().save(self.key, value, self._seal, elsewhere=elsewhere)",
        "pass",
        "tests/spark/test_single_use_tokens.py",
    ),
    Bug(
        "stored tokens are for their user alone",
        "lake/storage/token_files",
        "private=True",
        "private=False",
        "tests/spark/test_single_use_tokens.py",
    ),
    Bug(
        "tasks get the driver's tokens",
        "sync/loop/task_loop",
        "share, tokens, live, limits",
        "share, {}, live, limits",
        "tests/spark/test_single_use_tokens.py",
    ),
    Bug(
        "a task that outlived an attempt brings nothing", "sync/loop/task_loop", "piece.attempt != run.attempt", "False"
    ),
    Bug("files that are older than a column are compared", "sync/loop/task_loop", "run.outgrew(target)", "False"),
    Bug(
        "slices that a task had no time for come again",
        "sync/loop/task_loop",
        "                run.untouched(piece.slice)",
        "                pass",
    ),
    Bug(
        "a cluster that has joined gets all further tasks",
        "sync/loop/task_loop",
        "            self._workers = workers\n",
        "",
        "tests/sync/loop/test_task_loop.py",
    ),
    Bug(
        "a cluster does not start for a slice that goes on alone",
        "sync/loop/bundles",
        "len(bundle.slices) for bundle in self._running) > 1",
        "len(bundle.slices) for bundle in self._running) > 0",
        "tests/sync/loop/test_task_loop.py",
    ),
    Bug(
        "lanes are divided for more tasks when none has any",
        "rest/limits/run_budgets",
        " or (self._grown and not self._unleased)",
        "",
        "tests/rest/limits/test_run_budgets.py",
    ),
    Bug(
        "a commit that waited for a wave comes before the next wave",
        "sync/loop/task_loop",
        "not all(map(self._bundles.in_wave, self._overdue))",
        "False",
        "tests/sync/loop/test_task_loop.py",
    ),
    Bug(
        "what is read beside a commit makes the next one come earlier",
        "sync/loop/task_loop",
        "self._clock() + self._interval - beside",
        "self._clock() + self._interval",
        "tests/sync/loop/test_task_loop.py",
    ),
    Bug(
        "what has come is committed when Spark is lost",
        "sync/loop/task_loop",
        "if isinstance(error, TransientError):",
        "if False:",
        "tests/sync/loop/test_task_loop.py",
    ),
    Bug("half a wave is not committed", "sync/loop/task_loop", "half = self._bundles.in_wave(n)", "half = False"),
    Bug(
        "a sync that is interrupted begins no task",
        "sync/loop/task_loop",
        "while not (self._interruption.why or self._budgets.exhausted)",
        "while not (self._budgets.exhausted)",
    ),
    Bug(
        "a bound of requests holds",
        "base/process/request_lease",
        "                if self.unsent <= 0:",
        "                if self.unsent < 0:",
    ),
    Bug(
        "a task that has died counts with all requests that it was lent",
        "sync/loop/task_loop",
        "None if ended.result is None else result.requests",
        "result.requests",
    ),
    Bug(
        "a task that was begun before sends nothing",
        "sync/tasks/bundle_task",
        "if task_attempt() and lent.unsent is not None:",
        "if False:",
        "tests/sync/loop/test_task_loop.py",
    ),
    Bug(
        "planning that may send no more is not the end of the plan",
        "sync/loop/stream_sync",
        "        except RequestsSpent:",
        "        except ZeroDivisionError:",
        "tests/sync/loop/test_task_loop.py",
    ),
    Bug("a task has no more time than is left", "sync/loop/task_loop", "self._interruption.limited(max(", "float(max("),
    Bug(
        "a task ends at its page when the sync is interrupted",
        "sync/tasks/bundle_task",
        "if self._clock() >= self._end or self._interruption.why:",
        "if self._clock() >= self._end:",
        "tests/cli/sync/test_signals.py",
    ),
    Bug(
        "a sync that is interrupted with nothing left to read is done",
        "sync/loop/stream_sync",
        "if self.active and not (self.idle and self._schedule.all_planned):",
        "if self.active:",
        "tests/sync/loop/test_task_loop.py",
    ),
    Bug(
        "what a wave leaves over comes first",
        "sync/loop/bundles",
        "            self._runs[planned.target].untouched(planned.slice)",
        "            queue.waiting.append(planned)",
        "tests/sync/loop/test_table_writer.py",
    ),
    Bug(
        "lanes keep what was called on them",
        "rest/limits/budget_lanes",
        "[spent.calls, *(known.calls[lane] for lane in lanes)]",
        "[spent.calls]",
        "tests/rest/limits/test_task_share.py",
    ),
    Bug(
        "lanes of a task that died come back as if it had used them",
        "rest/limits/budget_lanes",
        "calls=(until,) * math.ceil(known.usage.limit * len(lanes) / of)",
        "calls=()",
        "tests/rest/limits/test_executors.py",
    ),
    Bug(
        "a task that began before calls nothing",
        "rest/limits/task_budgets",
        "if self.copied or not share.lanes:",
        "if not share.lanes:",
        "tests/rest/limits/test_executors.py",
    ),
    Bug(
        "rows do not wait for a turn",
        "rest/limits/budget_slice",
        "            if at > now + longest:",
        "            if False:",
        "tests/rest/limits/test_executors.py",
    ),
    Bug(
        "turns are the same for all tasks",
        "rest/limits/budget_slice",
        "scarce = [(limit, period) for limit, period in rates if limit // share.of < heaviest]",
        "scarce = [(limit, period) for limit, period in rates if share.part(limit) < heaviest]",
        "tests/rest/limits/test_task_share.py",
    ),
    Bug("who dies alone did it", "sync/loop/bundles", "if bundle.suspicion is Suspicion.ALONE:", "if True:"),
    Bug(
        "a slice that is suspected is read apart",
        "sync/loop/bundles",
        "Suspicion(min(self.suspicion(slice) + 1, Suspicion.ALONE))",
        "Suspicion.NONE",
    ),
    Bug(
        "a refresh hides its rows until it is whole",
        "sync/loop/resume",
        "plan.traits.merges else hidden",
        "plan.traits.merges else False",
    ),
    Bug(
        "a refresh of a table with keys removes older rows",
        "sync/loop/stream_sync",
        "removal = RemovalRequest(AS_THE_PLATFORM_SAYS)",
        "pass",
        "tests/spark/test_refresh.py",
    ),
    Bug(
        "streams of two namespaces are two streams",
        "streams/stream",
        'return f"{stream.namespace}.{stream.name}" if stream.namespace else stream.name',
        "return stream.name",
        "tests/spark/test_namespaces.py",
    ),
    Bug(
        "a wait of a read that has ended ends",
        "engine/thread_pool",
        "self._context.run(interruptible, stop)",
        "pass",
        "tests/engine/test_thread_pool.py",
    ),
    Bug("a wait can be ended", "base/times/clock", "while not stop.is_set() and seconds > 0:", "while seconds > 0:"),
    Bug(
        "an error is said with the connector's line",
        "sync/tasks/messages",
        "next(frame for frame in reversed(others) if frame.filename == others[0].filename)",
        "others[-1]",
        "tests/spark/test_traces.py",
    ),
    Bug(
        "traces hold no secret",
        "sync/loop/runner",
        'self._facts.mask("\\n".join(texts))',
        '"\\n".join(texts)',
        "tests/spark/test_traces.py",
    ),
    Bug("a page ends a wait", "rest/http/activity", "self._doing.get(stream, Doing()).pages + 1)", "9, 9e9, 'busy')"),
    Bug("what a task did is not seen for ever", "rest/http/activity", "self._file.unlink(missing_ok=True)", "pass"),
    Bug(
        "what people see of a wait has no secret",
        "sync/loop/runner",
        "replace(doing, why=self._facts.mask(doing.why))",
        "doing",
        "tests/spark/test_doing.py",
    ),
    Bug(
        "closing leaves no threads", "engine/thread_pool", "any(thread.is_alive() for thread in self._threads)", "False"
    ),
    Bug("a restored table has the state of its rows", "lake/delta/restore_detection", "at = int(to)", "pass"),
    Bug("joining files brings no new rows", "lake/delta/compaction", "rows_change=False", "rows_change=True"),
    Bug("files are joined once", "lake/delta/compaction", "max_commit_retries=0", "max_commit_retries=9"),
    Bug(
        "a merge that is done again looks at the files that are there",
        "lake/delta/write_modes",
        "        present = table.files(*self.identity.keys)\n",
        "        present = self.__dict__.setdefault('_once', table.files(*self.identity.keys))\n",
    ),
    Bug(
        "a merge reads what delta-rs has written",
        "lake/parquet/table_rows",
        "restored(without_encoding(batch), ",
        "restored(batch, ",
    ),
    Bug(
        "files that leave say how large they were", "lake/parquet/table_files", "removed, file.size,", "removed, None,"
    ),
    Bug(
        "a column that comes later costs no row",
        "lake/parquet/writer",
        "            self.flush()\n            self._finish()\n            self._schema",
        "            self._gathered = []\n            self._finish()\n            self._schema",
    ),
    Bug(
        "whole numbers keep every digit",
        "base/values",
        "        value: JsonValue = _decode(text)\n",
        "        value: JsonValue = orjson.loads(text)\n",
    ),
    Bug("large numbers have a canonical text", "base/values", "sort_keys=sort", "sort_keys=False"),
    Bug("a body keeps every digit", "rest/http/messages", "(exact_json(self.body),)", "(orjson.loads(self.body),)"),
    Bug(
        "a record of many levels is a typed error",
        "engine/boundary_dedup",
        "except RecursionError:\n            raise NotJson",
        "except MemoryError:\n            raise NotJson",
        "tests/engine/test_read.py",
    ),
    Bug(
        "the slices of files that do not fit are read again",
        "sync/loop/task_loop",
        "progress = {} if fitting is None else {item.number: item for item in result.progress}",
        "progress = {item.number: item for item in result.progress}",
    ),
    Bug(
        "rows that contradict the marker are an error",
        "lake/delta/stream_table",
        "if saved is not None and not certain:",
        "if False:",
        "tests/lake/delta/test_restore_detection.py",
    ),
    Bug(
        "rows that somebody joins are no restore",
        "lake/delta/restore_detection",
        "if (rows == saved.rows and joined) or (rows > saved.rows and others):",
        "if False:",
        "tests/lake/delta/test_restore_detection.py",
    ),
    Bug(
        "keys that a killed merge has left are removed",
        "lake/parquet/merge",
        "modified < before.timestamp() * 1000",
        "modified < 0",
        "tests/sync/loop/test_stream_sync.py",
    ),
    Bug(
        "keys of a merge that runs stay",
        "lake/parquet/merge",
        "modified < before.timestamp() * 1000",
        "modified > 0",
        "tests/sync/loop/test_stream_sync.py",
    ),
    Bug("files are joined only if rows are as many", "lake/delta/compaction", "row_count(files) - before", "0"),
    Bug("small files leave only for files that are there", "lake/delta/compaction", "lost_files(root, files)", "[]"),
    Bug(
        "verify compares receipts with files", "lake/admin/table_audit", "receipt.check(gained,", "receipt.check(None,"
    ),
    Bug("verify counts rows by footers", "lake/admin/table_audit", "logged.rows != footer_rows", "logged.rows < 0"),
    Bug(
        "verify begins where a cleaned log begins",
        "lake/parquet/table_files",
        "for version in range(first, now):",
        "for version in ():",
        "tests/lake/admin/test_table_audit.py",
    ),
    Bug(
        "rows that do not add up are not committed",
        "lake/delta/receipt",
        "if counted != expected:",
        "if counted > expected + 99:",
    ),
    Bug(
        "a receipt compares what was read with the files",
        "lake/delta/receipt",
        "(self.read, self.staged + self.skipped)",
        "(self.read, self.read)",
    ),
    Bug(
        "a receipt counts what a merge leaves out",
        "lake/parquet/merge",
        "sum(part.num_rows for part in read) - winners.num_rows",
        "0",
        tests="tests/lake/delta/test_receipt.py",
    ),
    Bug(
        "a second redirect does not bring credentials back",
        "rest/http/transport",
        "current = _redirected(current, response.status",
        "current = _redirected(replace(current, headers=request.headers), response.status",
        "tests/rest/http/test_origin.py",
    ),
    Bug(
        "a secret in the URL of a redirect stays",
        "rest/http/transport",
        "if body is not None or reveals:",
        "if body is not None:",
    ),
    Bug(
        "credentials stay with the port",
        "rest/http/origin",
        "    return old == new or (",
        "    return old[:2] == new[:2] or (",
    ),
    Bug(
        "credentials never leave TLS",
        "rest/http/origin",
        'old[::2] == ("http", 80) and new[::2] == ("https", 443)',
        '{old[::2], new[::2]} == {("http", 80), ("https", 443)}',
    ),
    Bug(
        "secrets stay with the API",
        "rest/http/messages",
        "if authorized or self.body",
        "if self.body",
        "tests/rest/http/test_origin.py",
    ),
    Bug(
        "a URL that readers disagree on has no origin",
        "rest/http/origin",
        '_HOST = r"\\[[0-9a-f:.]+\\]|[^/?#\\\\@',
        '_HOST = r"\\[[0-9a-f:.]+\\]|[^/?#@',
    ),
    Bug("egress refuses a URL without a host", "rest/http/egress", "        if not host:\n", "        if False:\n"),
    Bug(
        "no answer names a host of a manifest",
        "declarative/named_hosts",
        'or _DOMAIN.fullmatch(named.host.rpartition("*")[2])',
        "or True",
    ),
    Bug(
        "links of a manifest do not carry its secrets",
        "declarative/named_hosts",
        "*named_origins(dict(config)))), secrets)",
        "*named_origins(dict(config)))))",
    ),
    Bug(
        "a config file has variables",
        "cli/config_file",
        "config = with_variables(document,",
        "config = document\n    with_variables(document,",
    ),
    Bug(
        "what an operation gives has a limit",
        "declarative/interpolation/limits",
        "        _small(len(value) <= MAX_TEXT)\n",
        "        pass\n",
    ),
    Bug(
        "what is made one by one has a limit",
        "declarative/interpolation/limits",
        "    elif isinstance(value, Generator):",
        "    elif False:",
    ),
    Bug("a file has so many levels", "base/yaml_file", "    if depth > _DEEPEST:", "    if False:"),
    Bug("a file has so many values", "base/yaml_file", "    if size > _MOST_VALUES:", "    if False:"),
    Bug(
        "merges of merges do not grow",
        "base/yaml_file",
        "        node.value = list({",
        "        list({",
    ),
    Bug(
        "a UUID is no quoted text",
        "lake/arrow/coerce",
        "    value = plain(value)\n    if value is None",
        "    if value is None",
    ),
    Bug(
        "a Decimal keeps its digits",
        "base/records/plain_values",
        "            return str(value)\n",
        "            return str(float(value))\n",
    ),
    Bug(
        "a moment of a class of its own is a text",
        "base/records/plain_values",
        "if isinstance(value, date | time):",
        "if False:",
    ),
    Bug(
        "a page token counts pages of its size",
        "rest/pagination/page_number",
        'if token.get("page_size", self._size) != self._size:',
        "if False:",
        "tests/rest/test_pagination.py",
    ),
    Bug(
        "a token of a manifest counts what it counted",
        "declarative/reading/page_reader",
        "if saved.get(name, value) != value",
        "if False",
        "tests/declarative/reading/test_manifest_stream.py",
    ),
    Bug(
        "a circle is noticed over many attempts",
        "streams/paged",
        "self._trail = saved or Trail.begin(token)",
        "self._trail = Trail.begin(token)",
    ),
    Bug(
        "a state remembers a circle",
        "state/position_json",
        'blob["trail"] = _trail(trail)',
        "pass",
        "tests/state/test_wire.py",
    ),
    Bug(
        "an overwrite asks before it empties a table",
        "sync/loop/stream_commit",
        "if rows.finished and not rows.files and (refusal := self._empties(saved)) is not None:",
        "if (refusal := RemovalRefused('')) is None:",
        "tests/sync/loop/test_stream_sync.py",
    ),
    Bug(
        "an overwrite that was refused reads again",
        "sync/loop/stream_commit",
        "saved = replace(saved, state=None, source=None)",
        "pass",
        "tests/sync/loop/test_stream_sync.py",
    ),
    Bug(
        "a stream has the field of its own cursor",
        "streams/stream",
        "(kind if stream is None else stream).cursor",
        "kind.cursor",
    ),
    Bug(
        "nothing known is appended again",
        "sync/loop/slice_schedule",
        "            self._check(mismatch)",
        "            pass",
        "tests/sync/loop/test_stream_sync.py",
    ),
    Bug(
        "an id of another type is noticed",
        "streams/checkpoint/partitioned",
        "yield other\n",
        "yield value\n",
    ),
    Bug(
        "what comes after a gone slice is read",
        "sync/loop/stream_sync",
        "progress.failure.final and self.active:",
        "False:",
    ),
    Bug(
        "a stream of which a slice is gone has failed",
        "sync/loop/stream_sync",
        "if finished and self._schedule.never is not None:",
        "if False:",
    ),
    Bug(
        "a base of streams is no stream", "sources/discovery", "if not any(cls is not other and", "if not any(False and"
    ),
    Bug(
        "a connector does not end the process",
        "streams/read_slice",
        "except SystemExit as error:",
        "except KeyError as error:",
    ),
    Bug(
        "a config stops no stream that it fits",
        "declarative/components/streams/source",
        "item.misconfigured(ctx, error) if of_config(error) else None",
        "None",
        "tests/declarative/test_source.py",
    ),
    Bug(
        "gaps between windows are read without lookback",
        "streams/checkpoint/windows",
        "upto=item.window.start, again=False",
        "upto=item.window.start, again=True",
    ),
    Bug(
        "equal records are counted",
        "engine/boundary_dedup",
        "        known = self._known.count(digest)\n",
        "        known = 10**9 * self._known.count(digest)\n",
        "tests/engine/test_read.py",
    ),
    Bug(
        "an earlier part of a slice is counted",
        "streams/checkpoint/windows",
        "start=position, met=edge",
        "start=position",
        "tests/engine/test_read.py",
    ),
    Bug(
        "one window gives what has no cursor value",
        "streams/checkpoint/repeated_records",
        "return window is not self._giver",
        "return False",
        "tests/engine/test_read.py",
    ),
    Bug(
        "what was held back is read once more",
        "streams/checkpoint/windows",
        "            if not settled:\n",
        "            if False:\n",
        "tests/engine/test_read.py",
    ),
    Bug(
        "tables remember how often a record came",
        "state/position_json",
        '("counts", edge.counts), ',
        "",
    ),
    Bug(
        "a commit names only files that are there",
        "lake/parquet/table_files",
        "sizes.get(file.path) != file.size",
        "sizes.get(file.path, file.size) != file.size",
        "tests/sync/loop/test_stream_sync.py",
    ),
    Bug(
        "a commit names only files that are whole",
        "lake/parquet/table_files",
        "sizes.get(file.path) != file.size",
        "file.path not in sizes",
        "tests/sync/loop/test_stream_sync.py",
    ),
    Bug(
        "what was read of files that are gone does not count",
        "sync/loop/stream_sync",
        "            self._begin(resumed=True)\n",
        "            self._schedule.counts = RecordCounts()\n",
    ),
    Bug(
        "the history gets a commit's rows once",
        "lake/delta/stream_table",
        "named = None if logged is None else tuple(logged)",
        "named = saved.logged if logged is None else tuple(logged)",
        "tests/lake/delta/test_row_history.py",
    ),
    Bug(
        "a history knows what it lacks",
        "lake/delta/stream_table",
        "self.state_version if newest is None or newest.logged is not None else newest.logged_at",
        "None if newest is None else newest.logged_at",
        "tests/lake/delta/test_row_history.py",
    ),
    Bug("a history is widened when its table was", "lake/delta/row_history", "        self._align(spread)\n", ""),
    Bug(
        "a history names no missing file",
        "lake/delta/row_history",
        "if files is None or missing_files(",
        "if files is None or not (",
    ),
    Bug(
        "a history is not filled twice",
        "lake/delta/row_history",
        "row is not None and row not in copied_ids",
        "row is not None",
    ),
    Bug("rows without a history are noted", "lake/delta/row_history", "saved.logged == ()", "False"),
    Bug(
        "a table that lost its marker is not new",
        "lake/delta/stream_table",
        "if number(newest) == 1 and (not self.row_count() or self.other_pipelines):",
        "if newest:",
        "tests/lake/admin/test_state_admin.py",
    ),
    Bug(
        "a renamed pipeline appends nothing again",
        "sync/loop/table_fit",
        "if stream_plan.traits.repeats_rows:\n        raise StateError",
        "if False:\n        raise StateError",
        "tests/lake/admin/test_state_admin.py",
    ),
    Bug(
        "first commits may be killed many times",
        "lake/delta/stream_table",
        "        newest = max(versions)\n",
        "        newest = self._after = max(versions)\n",
        "tests/spark/test_failure_matrix.py",
    ),
    Bug(
        "versions go up where the marker was lost",
        "lake/delta/stream_table",
        "self._after if before is None else before",
        "before",
        "tests/lake/admin/test_state_admin.py",
    ),
    Bug(
        "a full disk keeps the name of a sync",
        "lake/storage/run_lock",
        "        try:\n            notes.write",
        "        try:\n            notes.delete(name)\n            notes.write",
    ),
    Bug("a second run is to try again later", "cli/sync/signals", "raise Busy(", "raise click.ClickException("),
    Bug(
        "a secret is hidden in base64 behind others",
        "base/secret_masking",
        "for shift in range(3)",
        "for shift in range(1)",
    ),
    Bug(
        "a secret of which letters are escaped is hidden",
        "base/secret_masking",
        "    yield loose_pattern(secret)\n",
        "\n",
    ),
    Bug(
        "secrets are cut out of tokens",
        "streams/read_slice",
        "Checkpoint(marks.cut(token), trail",
        "Checkpoint(token, trail",
        "tests/rest/pagination/test_page_url.py",
    ),
    Bug(
        "secrets are put back into tokens",
        "streams/read_slice",
        "marks.restore(cursor)",
        "cursor",
        "tests/rest/pagination/test_page_url.py",
    ),
    Bug(
        "secrets of a session are cut out of tokens",
        "declarative/reading/page_reader",
        "safe = saved_token(page.response.request, following)",
        "safe = following",
        "tests/rest/pagination/test_page_url.py",
    ),
    Bug(
        "secrets of a session are put back into tokens",
        "rest/client",
        "put_back(request).outgoing(",
        "request.outgoing(",
        "tests/rest/pagination/test_page_url.py",
    ),
    Bug(
        "logins in URLs are hidden",
        "base/secret_masking",
        'return _LOGIN.sub(HIDDEN, text) if "://" in text else text',
        "return text",
    ),
    Bug(
        "what a connector raises is told without secrets",
        "cli/command_errors",
        "super().__init__(mask(",
        "super().__init__(str(",
    ),
    Bug(
        "settings of a pipeline go through a file", "spark/cluster/session", "**(conf if running_jvm else {})", "**conf"
    ),
    Bug(
        "rows that vectors deleted stay deleted",
        "lake/delta/table_guard",
        "{**_ALL_FILES, **_ROW_BY_ROW, Use.JOIN: Way.ENGINE,",
        "{**_ALL_FILES, Use.JOIN: Way.ENGINE,",
    ),
    Bug(
        "constraints are checked when rows are added",
        "lake/delta/table_guard",
        "dict.fromkeys([Use.APPEND, Use.OVERWRITE], Way.ENGINE)",
        "dict.fromkeys([Use.APPEND, Use.OVERWRITE], Way.FILES)",
    ),
    Bug(
        "a feature that is not known is refused",
        "lake/delta/table_guard",
        "(_OTHER, name) for name in sorted(",
        "(_OTHER, name) for name in () and sorted(",
    ),
    Bug(
        "a history has a door of its own",
        "sync/loop/table_fit",
        ".check([Use.HISTORY, *also], written)",
        ".check([])",
        "tests/lake/delta/test_table_guard.py",
    ),
    Bug(
        "a dry run checks the key",
        "sync/loop/table_fit",
        "    identity(stream_plan, planned.schema, planned.columns)\n    return table\n",
        "    return table\n",
        "tests/lake/delta/test_table_guard.py",
    ),
    Bug(
        "one row takes the place of several",
        "lake/delta/engine_merge",
        'pc.greater(counts.field("counts"), 1)',
        'pc.greater(counts.field("counts"), 99)',
    ),
    Bug(
        "a null in a key is a key for delta-rs",
        "lake/delta/engine_writes",
        "(there.{_quoted(key)} IS NOT DISTINCT FROM read",
        "(there.{_quoted(key)} = read",
        "tests/lake/delta/test_engine_merge.py",
    ),
    Bug(
        "delta-rs meets the one row without a key",
        "lake/delta/engine_writes",
        " IS NOT DISTINCT FROM read.{_quoted(TARGET)})",
        " IS NULL OR read.{_quoted(TARGET)} IS NOT NULL)",
        "tests/lake/delta/test_engine_merge.py",
    ),
    Bug(
        "a merge that changes nothing moves the state",
        "lake/delta/write_modes",
        "if any(comparison.expected.values()):",
        "if True:",
        "tests/lake/delta/test_engine_merge.py",
    ),
    Bug(
        "rows that a constraint refused are shown to nobody",
        "lake/delta/failed_commit",
        "            stream=stream,\n        ) from None",
        "            stream=stream,\n        ) from error",
        "tests/lake/delta/test_table_guard.py",
    ),
    Bug(
        "a catalog's table is no folder", "sync/settings/pipeline_file", "if _TABLE_NAME.fullmatch(path):", "if False:"
    ),
    Bug(
        "a spec beside the manifest is its spec",
        "declarative/spec_file",
        "return _spec(files[0]) if files",
        "return None if files",
    ),
    Bug("one spec file is enough", "declarative/spec_file", "len(files) > 1", "len(files) > 2"),
    Bug(
        "a shared schema is resolved",
        "declarative/reading/schema_file",
        "return self._target(link, schema)",
        "return schema",
    ),
    Bug(
        "a schema reads no other files",
        "declarative/reading/schema_file",
        "is_relative_to(within.resolve())",
        "exists()",
    ),
    Bug("definitions of shared schemas go", "declarative/reading/schema_file", 'if key != "definitions"', "if key"),
    Bug(
        "a slash is one slash",
        "declarative/components/requests/requesters",
        '.strip().lstrip("/")',
        '.strip().removeprefix("/")',
    ),
    Bug(
        "pages begin anew where nothing is said",
        "declarative/components/streams/retrievers",
        'Reset("RESET") if',
        'Reset("SPLIT_USING_CURSOR") if',
        "tests/declarative/components/streams/test_recoveries.py",
    ),
    Bug(
        "a feed ends at the state",
        "declarative/components/streams/retrievers",
        "parts.incremental is not None and not feed",
        "parts.incremental is not None",
        "tests/declarative/components/streams/test_incremental.py",
    ),
    Bug(
        "values of a list keep their types",
        "declarative/components/streams/partition_routers",
        "        return values\n",
        "        return [str(value) for value in values]\n",
    ),
    Bug(
        "groups share a cursor",
        "declarative/components/streams/streams",
        "reader.router.shares_cursor",
        "False",
        "tests/declarative/components/streams/test_partition_routers.py",
    ),
    Bug(
        "groups know their parents' slices",
        "declarative/components/streams/partition_routers",
        "for name in group[0]}\n    extra",
        "for name in group[0] if name != PARENT_SLICE}\n    extra",
    ),
    Bug(
        "the partition has its inner name",
        "declarative/interpolation/environment",
        'attr == "_partition" or',
        "",
        "tests/declarative/components/streams/test_partition_routers.py",
    ),
    Bug("late records are counted", "engine/protocol_read", "if last is None and self._count:", "if False:"),
    Bug(
        "old states of unions are migrated",
        "declarative/components/streams/state_migrations",
        "case [UnionPartitionRouter() as router]:",
        "case [UnionPartitionRouter() as router] if not router:",
    ),
    Bug(
        "only states of the cursor are migrated",
        "declarative/components/streams/state_migrations",
        "list(item) == [cursor]",
        "len(item) == 1",
    ),
    Bug(
        "a check asks for no more streams",
        "declarative/components/streams/source",
        "alone = names and set(names)",
        "alone = not names and set(names)",
        "tests/declarative/test_source.py",
    ),
    Bug(
        "an empty choice is none",
        "declarative/components/streams/source",
        "chosen is None or chosen == []",
        "chosen is None",
        "tests/declarative/test_source.py",
    ),
    Bug(
        "overrides are no config",
        "declarative/source",
        "        self._rules(config).validate(config)\n        overridden",
        "        self._rules(config).validate({**config, **overrides})\n        overridden",
    ),
    Bug(
        "parameters are no part of a schema",
        "declarative/syntax/parameters",
        "    result.pop(_PARAMETERS, None)\n    if _is_schema",
        "    if _is_schema",
    ),
    Bug(
        "a state tells of parents there are",
        "declarative/reading/manifest_stream",
        "not state.parents and self._stream.has_parents",
        "not state.parents",
        "tests/declarative/components/streams/test_partition_routers.py",
    ),
    Bug(
        "neighbours are imported relatively",
        "compat/loading/custom_module",
        'return f"{name}.{inside.stem}"',
        'return f"{name}_{inside.stem}"',
    ),
    Bug(
        "the next refresh token is saved",
        "compat/airbyte/http/single_use_tokens",
        "self._paths[1]: following",
        "self._paths[1]: None",
        "tests/compat/test_requests.py",
    ),
    Bug("a default stands for nothing", "compat/airbyte/interpolation", 'if value != "":', "if value:"),
    Bug("credentials replace nothing", "rest/auth/static", "if name in request.headers:", "if False:"),
    Bug(
        "the shortest wait is limited",
        "rest/errors/wait_strategies",
        "seconds = least if seconds is None else max(seconds, least)",
        "return least if seconds is None else max(seconds, least)",
    ),
    Bug(
        "not to wait is never too long",
        "rest/errors/wait_strategies",
        "bounded(seconds, longest, outcome) if seconds else seconds",
        "bounded(seconds, longest, outcome)",
        "tests/declarative/components/requests/test_backoff.py",
    ),
    Bug(
        "no content has no records",
        "declarative/reading/page_reader",
        "or response.status == _NO_CONTENT",
        "",
        "tests/declarative/components/streams/test_retrievers.py",
    ),
    Bug(
        "a limit may be left out",
        "declarative/components/streams/incremental",
        'and ctx.expression(self, "min_datetime").text()',
        "",
    ),
    Bug(
        "arguments of macros have names",
        "declarative/interpolation/macros",
        "def _timestamp(dt: float",
        "def _timestamp(value: float",
    ),
    Bug(
        "a secret in a state takes no row along",
        "sync/loop/stream_commit",
        "        self._check(saved)\n",
        "",
        "tests/sync/loop/test_state_log_mirror.py",
    ),
    Bug(
        "a secret in a state is not said",
        "engine/protocol_read",
        "        self._leaks.refuse(line",
        "        _ = (line",
    ),
    Bug(
        "a state is one that the cursor can read",
        "streams/state_check",
        "cursor.greatest([value]) is None",
        "value is None",
    ),
    Bug(
        "a field that nobody reads is refused",
        "streams/state_check",
        "if name != cursor.field or",
        "if name is None or",
    ),
    Bug(
        "numbers in text are numbers",
        "streams/order",
        "                return int(value)\n",
        "                return len(value)\n",
    ),
    Bug("negative numbers descend", "streams/order", 'size + digits + b"\\0")', "size + digits)"),
    Bug(
        "a null key stays apart",
        "lake/parquet/keyless_rows",
        "        doubtful = pc.or_(doubtful, pc.is_null(column))\n",
        "        pass\n",
        "tests/spark/test_merge_keys.py",
    ),
    Bug(
        "a key finer than its column stays apart",
        "lake/parquet/keyless_rows",
        "if any(pa.types.is_timestamp(column.type) for column in keys):",
        "if False:",
        "tests/spark/test_merge_keys.py",
    ),
    Bug(
        "the range of a file drops no row without a key",
        "lake/parquet/merge",
        " | pc.field(APART).is_valid()",
        "",
        "tests/spark/test_merge_keys.py",
    ),
    Bug(
        "each file that may hold a row without a key is compared",
        "lake/parquet/merge",
        "if HIDDEN in apart or (NULL in apart and file.nulls != 0):",
        "if NULL in apart and file.nulls != 0:",
        "tests/spark/test_merge_keys.py",
    ),
    Bug(
        "nulls of every column of a key count",
        "lake/parquet/table_files",
        "        total += count\n",
        "        total = count\n",
    ),
    Bug("a cursor without a column is compared", "lake/parquet/dedup", "if column_ranks.null_count == 0:", "if True:"),
    Bug("the later row of a read wins", "lake/parquet/dedup", "for name in (CURSOR, RAW_ID)", "for name in (CURSOR,)"),
    Bug(
        "slices count in the order of their plan",
        "sync/tasks/slice_buffer",
        "self._rows.batch(records, [(number, len(records))])",
        "self._rows.batch(records)",
        "tests/sync/loop/test_table_writer.py",
    ),
    Bug(
        "rows without a key are said",
        "sync/loop/stream_sync",
        "        if self.report.apart:\n",
        "        if False:\n",
        "tests/sync/loop/test_table_writer.py",
    ),
    Bug(
        "an answer has a deadline",
        "rest/http/deadline",
        "min(remaining, self._silence)",
        "self._silence",
        "tests/rest/http/test_transport.py",
    ),
    Bug(
        "what comes before a body moves no deadline",
        "rest/http/deadline",
        "monotonic() + seconds, 0.0",
        "monotonic() + seconds, 1.0",
        "tests/rest/http/test_transport.py",
    ),
    Bug(
        "answers behind a proxy have a deadline",
        "rest/http/requests_adapter",
        "        manager.pool_classes_by_scheme = timed_pools(self._response_seconds)\n",
        "",
        "tests/rest/http/test_transport.py",
    ),
    Bug(
        "a quote of a Link header is looked at once",
        "rest/pagination/next_link",
        "            return\n",
        "            continue\n",
    ),
    Bug(
        "a restored table is read again",
        "sync/loop/skip_windows",
        "table.state_version == table.rows_state_version == stood",
        "table.state_version == stood",
    ),
    Bug(
        "no table lies in a folder of Delta's",
        "sync/settings/stream_plan",
        '{"", ".", "..", "_delta_log"}',
        '{"", ".", ".."}',
    ),
    Bug("days are durations, too", "base/times/durations", '"d": timedelta(days=1)', '"d": timedelta(hours=1)'),
    Bug(
        "half a bucket is not remembered",
        "state/handlers/redundant",
        "(Interval(_of_millis(start_time_millis), _of_millis(end_time_millis)),)",
        "outward(Interval(_of_millis(start_time_millis), _of_millis(end_time_millis)), self._bucket),",
    ),
    Bug("a run of a long log reads few records", "state/log/retention", "if count > _FEW and", "if not count and"),
    Bug(
        "a value of the config is never replaced",
        "sources/defaults",
        "            if name in filled:\n",
        "            if filled.get(name):\n",
    ),
    Bug(
        "a default spoils no config that fits",
        "sources/defaults",
        'value != "" and _fits(value, schema)',
        'value != ""',
    ),
    Bug("no default chooses another way in", "sources/defaults", "(required or value.keys()", "(True or value.keys()"),
    Bug("defaults of other branches stay out", "sources/defaults", "or len(meant) == 1:", "or meant:"),
    Bug(
        "migrations see what an old config lacks",
        "sources/config",
        "source.transform(with_defaults(source.prepare(config), source.config_schema))",
        "source.transform(source.prepare(with_defaults(config, source.config_schema)))",
    ),
    Bug(
        "transformations see defaults",
        "sources/config",
        "source.transform(with_defaults(source.prepare(config), source.config_schema))",
        "with_defaults(source.transform(source.prepare(config)), source.config_schema)",
    ),
    Bug(
        "a constraint that is dropped refuses nothing",
        "lake/delta/failed_commit",
        "        if table.version != version:\n            raise",
        "        if False:\n            raise",
        tests="tests/lake/delta/test_write_modes.py",
    ),
    Bug(
        "a first commit that somebody overtook leaves no state behind",
        "lake/delta/failed_commit",
        "if refused or (cause is not None and table.version != version):",
        "if refused:",
        tests="tests/worlds/test_named_times.py",
    ),
    Bug(
        "files that vanish while a task writes are read again",
        "sync/tasks/bundle_task",
        "                return BundleResult(vanished=str(path))",
        "                raise",
        tests="tests/worlds/test_named_times.py",
    ),
    Bug(
        "a file is removed by the name that delta-rs spells for the log",
        "lake/parquet/table_files",
        "RemoveAction(unquote(file.path), rows_change",
        "RemoveAction(file.path, rows_change",
        tests="tests/worlds/test_named_times.py",
    ),
    Bug(
        "a restore beside a sync is no change like others",
        "lake/delta/restore_detection",
        "    if state_of_rows(root, stream, app, version=version, marker=marker).version != rows_state:",
        "    if False:",
        tests="tests/lake/delta/test_restore_detection.py",
    ),
    Bug(
        "a generation of other types is not written beside constraints",
        "lake/delta/write_modes",
        "                table.guard.check([Use.WIDEN])",
        "                pass",
        tests="tests/worlds/test_named_times.py",
    ),
    Bug(
        "a history forgets its missing files though somebody joins others",
        "lake/delta/row_history",
        "repeat_if_changed(self.table, self._remove_missing)",
        "self._remove_missing()",
        tests="tests/worlds/test_named_times.py",
    ),
    Bug(
        "a new key of two pipelines is there once",
        "lake/delta/write_modes",
        "remove=result.remove, alone=True",
        "remove=result.remove",
    ),
    Bug(
        "an overwrite allows nobody in between",
        "lake/delta/stream_table",
        "alone = alone or overwrite or bool(remove)",
        "alone = alone or bool(remove)",
        "tests/lake/delta/test_write_modes.py",
    ),
    Bug(
        "a merge is done again where somebody committed meanwhile",
        "lake/delta/write_modes",
        "saved, result.add, remove=result.remove, alone=True, ",
        "saved, result.add, remove=result.remove, ",
        "tests/worlds/test_named_times.py",
    ),
    Bug(
        "a refused first commit is no lost marker",
        "lake/delta/stream_table",
        "partial(self._states.remove, version)",
        "partial(number, version)",
        tests="tests/lake/delta/test_write_modes.py",
    ),
    Bug(
        "a new column does not end a generation",
        "lake/delta/write_modes",
        "repeat_if_changed(self.table, partial(self._hidden, saved, files, receipt))",
        "self._hidden(saved, files, receipt)",
    ),
    Bug(
        "a partition is forgotten no sooner than that",
        "streams/checkpoint/partitioned",
        "if now - (since or now) >= after:",
        "if now - (since or now) >= after / 2:",
    ),
    Bug(
        "children that a parent's state leaves out stay",
        "streams/checkpoint/partitioned",
        "if not self.finished or self._parents or WHOLE in",
        "if not self.finished or WHOLE in",
    ),
    Bug(
        "a partition that comes back is missing no more",
        "streams/checkpoint/partitioned",
        "self._positions.miss(partition.key, None)",
        "pass",
    ),
    Bug(
        "no partition is forgotten where rows are appended",
        "sync/settings/stream_plan",
        "replaces = traits.merges and",
        "replaces =",
        "tests/spark/test_missing_partitions.py",
    ),
    Bug(
        "no partition is forgotten where a history is kept",
        "sync/settings/stream_plan",
        "not options.history and options.deletes",
        "options.deletes",
        "tests/spark/test_missing_partitions.py",
    ),
    Bug(
        "partitions that left are gone from a state of several layers",
        "state/layers/layer_file",
        "return {key: text or None for key, _, text in pairs}",
        "return {key: text for key, _, text in pairs if text}",
        "tests/lake/delta/test_state_blobs.py",
    ),
    Bug(
        "a layer stays while a state that is kept needs it",
        "lake/delta/state_blobs",
        "needed = self.names(retained)",
        'needed = {f"{version}.json" for version in retained}',
    ),
    Bug(
        "a state leans on one that a commit has named",
        "lake/delta/state_blobs",
        "before = [self._stacks[n] for n in saved.history if n in self._stacks]",
        "before = [*self._stacks.values()]",
    ),
    Bug(
        "frames of Spark have the tokens of the plan",
        "spark/datasource/task_reader",
        "InputPartition(Hand(tuple(slices[n::hands]), tokens))",
        "InputPartition(Hand(tuple(slices[n::hands])))",
        "tests/spark/datasource/test_tokens.py",
    ),
    Bug(
        "a frame reads the file of its config when planned",
        "spark/datasource/source",
        "OpenStream.of(DataSourceOptions.of(self.options, Path(self.folder)))",
        "OpenStream.of(self._given)",
        "tests/spark/datasource/test_tokens.py",
    ),
    Bug(
        "no token is used whose next one has no place",
        "spark/datasource/tokens",
        "if name in self._lost:",
        "if True:",
        "tests/spark/datasource/test_tokens.py",
    ),
    Bug(
        "a query goes on with the token in memory",
        "spark/datasource/tokens",
        "self._lost.add(name)",
        "pass",
        "tests/spark/datasource/test_tokens.py",
    ),
    Bug(
        "a task without a token uses up none",
        "rest/auth/token_owner",
        "if self._single_use and held_tokens() is not None:",
        "if False:",
        "tests/rest/auth/test_tokens.py",
    ),
    Bug(
        "who is refused lets go of the token",
        "rest/auth/token_owner",
        "                if state.access_token == token:\n                    state.access_token = None",
        "                pass",
        "tests/rest/test_auth.py",
    ),
    Bug(
        "custom code sees the token it was given",
        "compat/airbyte/http/custom_tokens",
        "self._known.lend(token)",
        "pass",
        "tests/spark/test_custom_tokens.py",
    ),
    Bug(
        "custom code goes on with the next refresh token",
        "compat/airbyte/http/custom_tokens",
        "self._known.refresh_token = state.refresh_token",
        "pass",
        "tests/spark/test_custom_tokens.py",
    ),
    Bug(
        "a login that custom code does not choose is left",
        "compat/adapters/registry",
        "    if native in inside or (inside",
        "    for part in inside:\n        report(part)\n    if native in inside or (inside",
        "tests/spark/test_custom_tokens.py",
    ),
    Bug(
        "custom code uses up no token in a task",
        "compat/airbyte/http/single_use_tokens",
        "if held_tokens() is not None:",
        "if False:",
        "tests/spark/test_custom_tokens.py",
    ),
    Bug(
        "a restore can be undone after more syncs",
        "lake/delta/stream_table",
        "self.newest = self.load(self.state_version)",
        "pass",
        tests="tests/lake/delta/test_restore_detection.py",
    ),
    Bug(
        "programs sync with the config that commands see",
        "sync/loop/runner",
        'pipeline = pipeline.prepared(source, "source.config", Secrets())',
        "pass",
        "tests/cli/test_manifests.py",
    ),
    Bug(
        "a config is prepared once",
        "sync/settings/pipeline_file",
        "        if self._prepared:",
        "        if False:",
        "tests/cli/test_manifests.py",
    ),
    Bug(
        "a restore to as many rows is noticed",
        "lake/delta/restore_detection",
        "if (rows == saved.rows and joined) or",
        "if rows == saved.rows or",
        tests="tests/lake/delta/test_restore_detection.py",
    ),
    Bug(
        "files that a commit took away are missed by nobody",
        "lake/delta/table_state",
        "tuple(filter(stays, before.newest))",
        "before.newest",
        tests="tests/lake/delta/test_restore_detection.py",
    ),
    Bug(
        "joined files have a receipt",
        "lake/delta/compaction",
        "custom_metadata={RECEIPT: Receipt().to_text()}),\n",
        "custom_metadata={}),\n",
    ),
    Bug(
        "each format is named once",
        "streams/order",
        "dict.fromkeys([*self.formats, 'ISO 8601'])",
        "[*self.formats, 'ISO 8601']",
        tests="tests/streams/test_state_check.py",
    ),
    Bug(
        "a window that is read again moves no cursor",
        "streams/checkpoint/windows",
        "            edge = replace(edge, value=None)\n",
        "            pass\n",
        "tests/engine/test_read.py",
    ),
    Bug(
        "a double holds what an inferred column holds",
        "base/records/inferred",
        'return "number" if all(-EXACT <= value <= EXACT for value in integers) else "mixed"',
        'return "number"',
    ),
    Bug(
        "a text is inferred to be a text",
        "base/records/inferred",
        'return _SIMPLE.get(types.pop(), "mixed") if len(types) == 1 else "mixed"',
        'return _SIMPLE.get(types.pop(), "mixed")',
    ),
    Bug(
        "an inferred column holds later values",
        "lake/arrow/record_batches",
        "if name in self._follows and kind is not JSON_TEXT:",
        "if False:",
    ),
    Bug(
        "an inferred column is no narrower than it was",
        "lake/arrow/record_batches",
        "wide = inferred(values, kind)",
        "wide = inferred(values)",
    ),
    Bug(
        "a null says nothing of an inferred type",
        "lake/arrow/record_batches",
        "            if kind is None:\n                continue\n",
        "            kind = kind or pa.string()\n",
    ),
    Bug(
        "inferred types of tasks agree",
        "lake/arrow/schema_evolution",
        "        schema = schema.set(schema.get_field_index(name), pa.field(name, wide))\n",
        "",
        "tests/sync/loop/test_task_loop.py",
    ),
    Bug(
        "files of tasks that inferred less are written again",
        "sync/loop/table_writer",
        "        narrow = [file for file in files if file.path in written and self._differs(written[file.path])]",
        "        narrow = list[DataFile]()",
        "tests/sync/loop/test_task_loop.py",
    ),
    Bug(
        "inferred whole numbers keep their digits",
        "sync/loop/table_writer",
        "            self._meet(dict.fromkeys(self._layout(staging).unfit(narrow, spread), pa.string()))",
        "            pass",
        "tests/sync/loop/test_task_loop.py",
    ),
    Bug(
        "the table's rows follow an inferred type",
        "sync/loop/table_writer",
        "if self._widen(saved, spread):",
        "if self.mode.add(self._columns.add):",
    ),
    Bug(
        "a hidden generation goes on with inferred types",
        "sync/loop/table_writer",
        "for schema in schemas for field in schema if field.name in self._columns.follows}",
        "for schema in schemas for field in schema if not field}",
    ),
    Bug(
        "columns of inferred types get files of their own",
        "lake/parquet/writer",
        "            elif len(batch.schema) > len(self._schema):\n                self._schema = batch.schema\n",
        "",
    ),
    Bug(
        "what is declared is not inferred again",
        "engine/first_pages",
        "if name not in properties}",
        "}",
    ),
    Bug(
        "a start is one value however it is written",
        "streams/read_slice",
        "rank(self._edge.value) == rank(window.start)",
        "self._edge.value == window.start",
    ),
    Bug(
        "a sync keeps rows without a key apart",
        "lake/parquet/keyless_rows",
        "        doubtful = pc.or_(doubtful, pc.is_null(column))\n",
        "        pass\n",
        "tests/worlds/test_records.py",
    ),
    Bug(
        "a sync loses no row to a column that comes later",
        "lake/parquet/writer",
        "            self.flush()\n            self._finish()\n            self._schema",
        "            self._gathered = []\n            self._finish()\n            self._schema",
        "tests/worlds/test_records.py",
    ),
    Bug(
        "a sync keeps every digit",
        "base/records/exact_json",
        "            return _decode(body)\n",
        "            return __import__('orjson').loads(body)\n",
        "tests/worlds/test_records.py",
    ),
    Bug(
        "a sync takes values of Python as read does",
        "lake/arrow/record_batches",
        "values = list(map(plain, values))",
        "values = list(map(repr, values))",
        "tests/worlds/test_records.py",
    ),
    Bug(
        "a sync compares cursors as the stream does",
        "lake/parquet/dedup",
        "    encoded = column.dictionary_encode()\n",
        "    return column.cast(pa.string()).cast(pa.binary())\n",
        "tests/worlds/test_records.py",
    ),
    Bug(
        "numbered pages of another size begin their slice anew",
        "rest/pagination/page_number",
        'if token.get("page_size", self._size) != self._size:',
        "if False:",
        "tests/worlds/test_records.py",
    ),
    Bug(
        "equal records of a cut read are counted",
        "engine/boundary_dedup",
        "        counts = {digest: count for digest, count in self._counts.items() if count > 1}\n",
        "        counts = dict[str, int]()\n",
        "tests/engine/test_read.py",
    ),
    Bug(
        "a dict that is filled again is many records",
        "streams/read_slice",
        "records.append(dict(item))",
        "records.append(item)",
    ),
    Bug(
        "a sync that is refused adds no column",
        "sync/loop/table_writer",
        "return MODES[plan.write_mode](Opening(table, schema, key, self.bounded, history))",
        "mode = MODES[plan.write_mode](Opening(table, schema, key, self.bounded, history))\n"
        "        mode.add(self._columns.add)\n"
        "        return mode",
        "tests/lake/delta/test_write_modes.py",
    ),
    Bug(
        "a merge spares what a vector deleted",
        "lake/delta/write_modes",
        "if table.guard.way(Use.APPEND_DEDUP) is Way.ENGINE:",
        "if False:",
        "tests/worlds/test_named_times.py",
    ),
    Bug(
        "a renamed pipeline appends nothing again",
        "sync/loop/table_fit",
        "    if others := table.other_pipelines:\n",
        "    if others := []:\n",
        "tests/lake/admin/test_state_admin.py",
    ),
    Bug(
        "rows of a sync that no state covers are not read again",
        "sync/loop/table_fit",
        "elif table.has_synced_rows:",
        "elif False:",
        "tests/worlds/test_named_times.py",
    ),
    Bug(
        "an overwrite knows what somebody joined meanwhile",
        "lake/delta/stream_table",
        "max_commit_retries=0 if alone else None",
        "max_commit_retries=None",
        "tests/worlds/test_named_times.py",
    ),
    Bug(
        "a history gets the rows of a commit once",
        "lake/delta/stream_table",
        "named = None if logged is None else tuple(logged)",
        "named = (self.saved.logged if self.saved else None) if logged is None else tuple(logged)",
        "tests/worlds/test_named_times.py",
    ),
    Bug(
        "rows without a key are compared with all of a file",
        "lake/parquet/merge",
        " | pc.field(APART).is_valid()",
        "",
        "tests/worlds/test_named_times.py",
    ),
    Bug(
        "rows that may leave are counted in the files that there are",
        "sync/loop/stale_removal",
        "repeat_if_changed(self._table, partial(self._known, generation, spread))",
        "self._known(generation, spread)",
        "tests/worlds/test_named_times.py",
    ),
    Bug(
        "what vanishes while columns become wider is read again",
        "sync/loop/table_writer",
        "                if missing <= before:\n                    raise\n",
        "                raise\n",
        "tests/worlds/test_named_times.py",
    ),
    Bug(
        "no column becomes wider beside deletion vectors",
        "sync/loop/table_writer",
        "        table.guard.check([Use.WIDEN])\n",
        "",
        "tests/lake/delta/test_write_modes.py",
    ),
    Bug(
        "an overwrite that was cut shows no row twice",
        "sync/loop/stream_sync",
        "if self._schedule.restarted and self.saved.pending:",
        "if False:",
        "tests/worlds/test_records.py",
    ),
    Bug(
        "one spelling has the column and the other is kept",
        "lake/arrow/record_batches",
        "{name for name in self._nulls if name.lower() not in self._taken}",
        "self._nulls",
    ),
    Bug(
        "rows that an OPTIMIZE doubled are refused",
        "lake/delta/restore_detection",
        "            moves.append(at)\n",
        "            pass\n",
        "tests/lake/delta/test_restore_detection.py",
    ),
    Bug(
        "rows that an OPTIMIZE doubled and RESTORE took are not",
        "lake/delta/restore_detection",
        "or before == after:",
        "or before > after:",
    ),
    Bug(
        "a table with doubled rows is refused before reading",
        "sync/loop/table_writer",
        "        check_moves(stream_plan, self.table)\n",
        "",
        "tests/lake/delta/test_write_modes.py",
    ),
    Bug(
        "an overwrite replaces doubled rows",
        "sync/loop/table_fit",
        "    if not stream_plan.traits.hidden_until_complete:\n        table.check_moves()",
        "    table.check_moves()",
        "tests/lake/delta/test_write_modes.py",
    ),
    Bug(
        "a commit that others outrun may be tried later",
        "lake/delta/pinned_table",
        "class TableChanged(TransientError):",
        "class TableChanged(StateError):",
        "tests/lake/delta/test_stream_table.py",
    ),
    Bug(
        "rows without a key are counted over all commits",
        "sync/loop/stream_sync",
        "apart=report.apart + done.apart,",
        "apart=report.apart or done.apart,",
        "tests/sync/loop/test_table_writer.py",
    ),
    Bug(
        "a pipeline may leave small files alone",
        "sync/loop/task_loop",
        "            if self._joins and not self._interruption.why:\n                run.compact()",
        "            run.compact()",
    ),
    Bug(
        "the property whose name is the column's has it",
        "lake/arrow/columns",
        "if column == name and column_name(owner) != owner:",
        "if False:",
    ),
    Bug(
        "a key without a column of its own is refused",
        "sync/loop/table_fit",
        "if owner is not None and owner != field:",
        "if False:",
    ),
    Bug(
        "half a character stops no stream",
        "base/values",
        "return value if repaired == body else loads(body)",
        "return orjson.loads(body)",
    ),
    Bug("a byte order mark stops no stream", "base/values", "body = body.removeprefix(BOM_UTF8)", "pass"),
    Bug(
        "a page without content has no records",
        "rest/retriever",
        "if not response.ok or response.status == _NO_CONTENT:",
        "if not response.ok:",
        "tests/rest/test_http_stream.py",
    ),
    Bug(
        "a connector's mistake has its place",
        "streams/stream",
        "if not isinstance(value, Iterable) or isinstance(value, Mapping | str):",
        "if not isinstance(value, Iterable):",
    ),
    Bug(
        "a line of the kit is none of the connector's",
        "sync/tasks/messages",
        "_KIT = Path(__file__).parents[2]",
        "_KIT = Path(__file__).parents[1]",
    ),
    Bug(
        "a slip of a schema is told",
        "lake/arrow/json_schema",
        "        if name not in _TYPES:",
        "        if name in ():",
    ),
    Bug(
        "partitions by other fields are told",
        "streams/checkpoint/partitioned",
        "if known and self._fields and known.isdisjoint(self._fields):",
        "if False:",
        "tests/streams/test_state_check.py",
    ),
    Bug(
        "a very short secret leaves words alone",
        "base/secret_masking",
        "_SHORTEST_PART = 4",
        "_SHORTEST_PART = 0",
    ),
    Bug(
        "a sync keeps the digits of fractions",
        "base/records/exact_json",
        "return number if is_held else WrittenNumber(text)",
        "return number",
        "tests/lake/arrow/test_record_batches.py",
    ),
    Bug(
        "an inferred double loses no digit later",
        "lake/arrow/record_batches",
        "exact = any(self._columns.get(name) == pa.float64() for name in self._follows)",
        "exact = False",
    ),
    Bug(
        "a cut CSV body is an error",
        "rest/records/decoders/csv_rows",
        "if read > row_end:",
        "if False:",
        "tests/rest/records/decoders/test_text_formats.py",
    ),
    Bug(
        "repeated CSV columns are warned of",
        "rest/records/decoders/csv_rows",
        "if count > 1 and name not in self._warned_of]",
        "if count > 2]",
        "tests/rest/records/decoders/test_text_formats.py",
    ),
]


def tests_of(tree: Path, bug: Bug) -> list[str]:
    """The files whose tests are to catch a bug."""
    package, _, name = bug.file.rpartition("/")
    mirrored = [bug.tests] if bug.tests else [f"tests/{package}/test_{name}.py", CONTRACTS.get(bug.file, "")]
    if files := [file for file in mirrored if file and (tree / file).exists()]:
        return files
    return sys.exit(f"cdk/{bug.file}.py: found no tests in {mirrored}; name their file in the bug")


def failing(tree: Path, tests: Sequence[str]) -> str | None:
    """Run tests in `tree`; the first that fails, as pytest takes it, or the exit code where no test is named."""
    # That a test fails is all there is to know: no example is made smaller, which takes longer than finding it.
    quick = ["-q", "-x", "--timeout=180", "-p", "no:cacheprovider", "--hypothesis-profile=unshrunk"]
    command = [sys.executable, "-m", "pytest", *quick, *tests]
    # Programs that the tests start elsewhere would import the kit that is installed.
    environ = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(command, cwd=tree, env=environ, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    # All cases of a test are taken together. One that hangs is stopped with its stack and without a summary.
    named = re.search(r"^(?:FAILED|ERROR) ([^\s\[]+)", done.stdout, re.MULTILINE)
    return named[1] if named else f"exit code {done.returncode}"


def plant(tree: Path, bug: Bug) -> str | None:
    """Run the tests with the bug in `tree`; the test that catches it, and passes without it."""
    file, tests = tree / "cdk" / f"{bug.file}.py", tests_of(tree, bug)
    sound = file.read_text()
    if sound.count(bug.old) != 1:
        sys.exit(f"cdk/{bug.file}.py has changed: {bug.old!r} occurs {sound.count(bug.old)} times, expected once")
    file.write_text(sound.replace(bug.old, bug.new))
    try:
        caught = failing(tree, tests)
    finally:
        file.write_text(sound)
    if caught and failing(tree, [caught] if "::" in caught else tests):
        print(f"{caught} fails without a planted bug")
        return None
    return caught


def main() -> int:
    """Plant every bug and print who caught it."""
    survivors, words = 0, sys.argv[1:]
    bugs = [bug for bug in BUGS if not words or any(word in bug.promise or word in bug.file for word in words)]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in ("cdk", "connectors", "tests"):
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", ".hypothesis"))
        shutil.copy(ROOT / "pyproject.toml", tree)
        for bug in bugs:
            caught = plant(tree, bug)
            survivors += caught is None
            print(f"{bug.promise:42} {bug.file:22} {caught or 'SURVIVED'}", flush=True)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
