"""What `spark-cdk sync` says when it only shows what it would read."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from cdk.base.values import to_json
from cdk.protocol import Mask

if TYPE_CHECKING:  # importing it at run time would import pyarrow for every command
    from cdk.sync.loop.preview import Preview


def show_previews(previews: "Iterable[Preview]", mask: Mask, notes: Iterable[str] = ()) -> int:
    """Print each stream, its first slices and its first records, a JSON line each; 1 when one failed.

    notes: what a sync would do besides, a line each.
    """
    from cdk.lake.admin.diff import shown, values  # noqa: PLC0415

    failed = False
    for one in previews:
        begins = ", ".join(f"{where} {shown(value)}" for where, value in list(values(one.state))[:3])
        where = f"goes on from {begins}" if begins else "from its start"
        click.echo(mask(f"{one.name}: {one.sync_mode}, {one.write_mode}, {where}"))
        for slice in one.slices:
            click.echo(mask(f"  {slice}"))
        if one.more:
            click.echo("  and more")
        for record in one.records:
            click.echo(to_json(record).decode())
        if one.failure is not None:
            failed = True
            click.echo(mask(f"{one.name}: {one.failure.message}"), err=True)
    for note in notes:
        click.echo(mask(note))
    click.echo("nothing was written")
    return 1 if failed else 0
