"""Whose rows a table has: checks and warnings about other pipelines, streams and programs that write to it."""

from cdk.base.errors import ConfigError, StateError
from cdk.base.logs import logger
from cdk.lake.arrow.columns import RAW_ID
from cdk.lake.delta.stream_table import StreamTable
from cdk.sync.settings.stream_plan import StreamPlan

_FEW_STAY = 0.25
"""If no more than this fraction of a table's rows is left, their removal was not a clean-up of old rows."""

_REPLACES_OTHERS = (
    "this overwrite replaces its rows once it is complete, and each overwrite of one replaces those of the other. Give "
    "one of them another target, or both the write_mode append_dedup and a primary key, so that the table has the rows "
    "of both"
)
_REMOVES_OTHERS = (
    "remove_stale removes its rows, too, unless this pipeline's source returns them. Give one of them another target, "
    "or leave remove_stale out"
)


def check_owned(table: StreamTable, stream: str) -> None:
    """Raise ConfigError if a pipeline fills the table with another stream or its history."""
    # If this pipeline's marker is there, an earlier sync has passed this check.
    if table.state_version is None and (owner := table.others.other_stream):
        raise ConfigError(
            f"the table is {owner}, and the rows of {table.stream!r} would be mixed with its rows. Rename one of the "
            "streams, sync into another path, or keep no history; if nothing writes to it any more, move its folder "
            "away",
            path=str(table.root),
            stream=stream,
        )


def check_owner(table: StreamTable, plan: StreamPlan, pipeline: str) -> None:
    """Raise StateError if the table has rows of a sync without a state of this pipeline, which would append them again.

    Warns if an overwrite or the removal of stale rows is about to replace or remove the rows of another pipeline.
    """
    name, overwrites = plan.stream.name, plan.traits.hidden_until_complete
    removes = plan.remove_stale is not None and plan.remove_stale.removal != "report"
    if (overwrites or removes) and (other := table.others.last_writer):
        effect = _REPLACES_OTHERS if overwrites else _REMOVES_OTHERS
        text = "%s: the pipeline %r also writes to this table: %s. If %r was only renamed, nothing is wrong"
        logger.warning(text, name, other, effect, other)
    if overwrites or not (text := rows_of_others(table, plan, pipeline)):
        return
    if plan.traits.repeats_rows:
        raise StateError(text, path=str(table.root), stream=name)
    again = "" if plan.history is None else ", and each record is added to its history once more"
    logger.warning("%s: %s; it is read from its start%s", name, text, again)


def rows_of_others(table: StreamTable, plan: StreamPlan, pipeline: str) -> str:
    """Describe whose rows a table has without a state of this pipeline, and what to do; empty if there are none."""
    if table.rows_state_version is not None or table.row_count() == 0:
        return ""
    if others := table.others.names:
        return (
            f"the table has rows and a state of the pipeline {others[0]!r}, but none of {pipeline!r}. If it was "
            f"renamed, give its file the name {others[0]!r} again, run `spark-cdk state fork FILE {pipeline}`, and "
            "rename it: it then resumes from there. If both are to write to the table, do the same, and then run "
            "`spark-cdk state reset`"
        )
    if table.has_synced_rows:
        return (
            f"the table has rows of a sync, with ids in {RAW_ID}, but no state that says how far the source was "
            "read: the table was copied or created again, or its _cdk_state was removed. Import a state that matches "
            "the rows with `spark-cdk state import`, read everything again with `spark-cdk state reset FILE --stream "
            f"{plan.name}`, or move the table away"
        )
    return ""


def warn_of_removed_rows(table: StreamTable, plan: StreamPlan) -> None:
    """Warn if another program has removed most rows since the last commit, as a resumed sync will not restore them.

    Rows removed in small numbers, as by a program that deletes old ones every day, are not an accident.
    """
    saved = table.saved
    if saved is None or not saved.rows or plan.traits.hidden_until_complete:
        return
    rows = table.row_count()
    if rows is None or rows > saved.rows * _FEW_STAY:
        return
    logger.warning(
        "%s: the table has %s rows, but had %s after this pipeline's last commit: another program has removed rows, "
        "and this sync, which resumes from the state, does not restore them. To get them back, restore the table to "
        "the previous version, or read everything again with `spark-cdk state reset FILE --stream %s`",
        plan.stream.name,
        *(f"{rows:,}", f"{saved.rows:,}", plan.name),
    )
