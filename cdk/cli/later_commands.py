"""The commands that bring Delta, or the parts of the kit that tests use, with them: imported when one of them runs."""

from collections.abc import Mapping

import click

from cdk.cli.authoring.doctor import doctor
from cdk.cli.authoring.import_ import import_
from cdk.cli.authoring.new import new
from cdk.cli.authoring.schema import schema
from cdk.cli.authoring.validate import validate
from cdk.cli.mcp.command import mcp
from cdk.cli.prove import prove
from cdk.cli.record import record
from cdk.cli.state.command import state
from cdk.cli.sync.command import sync
from cdk.cli.sync.plan import plan
from cdk.cli.tables import tables
from cdk.cli.ui.command import ui

LATER_COMMANDS: Mapping[str, click.Command] = {
    str(command.name): command
    for command in (sync, plan, tables, state, new, import_, record, prove, validate, schema, doctor, mcp, ui)
}
