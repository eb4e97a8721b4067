"""Beginning a stream at a state that another program, or another pipeline, has left."""

from cdk.base.errors import StateError
from cdk.base.values import Json
from cdk.lake.admin.edits import import_state
from cdk.lake.admin.locate import StreamLocation
from cdk.lake.admin.state_admin import Admin, EditResult
from cdk.lake.delta.table_state import TableState
from cdk.sync.loop.table_writer import TableWriting
from cdk.sync.settings.stream_plan import StreamPlan


def import_into_table(
    admin: Admin, plan: StreamPlan, location: StreamLocation, blob: Json, *, replace: bool
) -> EditResult:
    """Have a stream begin at an imported state; its table is made where there is none.

    Raises StateError: there is a state already, and nobody said that it is to be replaced. BadState: it is none.
    """
    fresh = TableState(plan.sync_mode, plan.write_mode)
    table = location.open(admin.pipeline, clock=admin.clock, lost=True) if location.exists else None
    if table is not None and table.state_version is not None and not replace:
        raise StateError("the stream has a state already; say --replace to put the imported one in its place")
    saved = fresh if table is None or table.saved is None else table.saved
    change = import_state(saved, plan.stream, blob, "import")
    if table is None:
        admin.check(location.name, change.saved)
        if admin.dry:
            return EditResult(location.name, change)
        table = TableWriting(plan, admin.pipeline).table
    return admin.commit(location, table, change)
