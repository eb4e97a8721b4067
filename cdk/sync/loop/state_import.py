"""Beginning a stream at a state that another program, or another pipeline, has left."""

from cdk.base.errors import StateError
from cdk.base.values import Json
from cdk.lake.admin.edits import given
from cdk.lake.admin.locate import Located
from cdk.lake.admin.state_admin import Admin, Done
from cdk.lake.delta.table_state import Saved
from cdk.sync.loop.table_writer import Writing
from cdk.sync.settings.stream_plan import StreamPlan


def took(admin: Admin, plan: StreamPlan, one: Located, blob: Json, *, replace: bool) -> Done:
    """Have a stream begin at an imported state; its table is made where there is none.

    Raises StateError: there is a state already, and nobody said that it is to be replaced. BadState: it is none.
    """
    fresh = Saved(plan.sync_mode, plan.write_mode)
    table = one.open(admin.pipeline, clock=admin.clock, lost=True) if one.there else None
    if table is not None and table.state_version is not None and not replace:
        raise StateError("the stream has a state already; say --replace to put the imported one in its place")
    saved = fresh if table is None or table.saved is None else table.saved
    change = given(saved, plan.stream, blob, "import")
    if table is None:
        admin.check(one.name, change.saved)
        if admin.dry:
            return Done(one.name, change)
        table = Writing(plan, admin.pipeline).table
    return admin.commit(one, table, change)
