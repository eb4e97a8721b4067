"""The commands of pipeline files, which bring Delta and rich with them: imported when one of them runs."""

from collections.abc import Mapping

import click

from cdk.cli.state.command import state
from cdk.cli.sync.command import sync
from cdk.cli.tables import tables

COMMANDS: Mapping[str, click.Command] = {"sync": sync, "tables": tables, "state": state}
