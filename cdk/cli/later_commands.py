"""The commands that import Delta, rich, or the test kit. Each module is imported when its command runs."""

from typing import TYPE_CHECKING

from cdk.base.first_use import lazy_names

if TYPE_CHECKING:  # `lazy_names` reads these imports, by name
    from cdk.cli.authoring.detect import detect
    from cdk.cli.authoring.doctor import check_pipeline, doctor
    from cdk.cli.authoring.new import import_, new
    from cdk.cli.authoring.preview import preview
    from cdk.cli.authoring.record import record
    from cdk.cli.authoring.simulate import simulate
    from cdk.cli.authoring.validate import schema, validate
    from cdk.cli.lake.query import query
    from cdk.cli.lake.runs import runs
    from cdk.cli.lake.tables import tables
    from cdk.cli.mcp.command import mcp
    from cdk.cli.prove import prove
    from cdk.cli.state.command import state
    from cdk.cli.sync.command import sync
    from cdk.cli.sync.plan import plan
    from cdk.cli.ui.command import ui

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__)
