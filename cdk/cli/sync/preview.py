"""What `spark-cdk sync` says when it only shows what it would read."""

from collections.abc import Iterable

import click

from cdk.base.values import to_json
from cdk.lake.admin.diff import shown, values
from cdk.protocol import Mask
from cdk.sync.loop.preview import Preview


def show_previews(previews: Iterable[Preview], mask: Mask, notes: Iterable[str] = ()) -> int:
    """Print each stream, its first slices and its first records, a JSON line each; 1 when one failed.

    notes: what a sync would do besides, a line each.
    """
    failed = False
    for preview in previews:
        begins = ", ".join(f"{where} {shown(value)}" for where, value in list(values(preview.state))[:3])
        where = f"goes on from {begins}" if begins else "from its start"
        click.echo(mask(f"{preview.plan.name}: {preview.plan.sync_mode}, {preview.plan.write_mode}, {where}"))
        for slice in preview.slices:
            click.echo(mask(f"  {slice}"))
        if preview.more:
            click.echo("  and more")
        for record in preview.records:
            click.echo(to_json(record).decode())
        if preview.failure is not None:
            failed = True
            click.echo(mask(f"{preview.plan.name}: {preview.failure.message}"), err=True)
    for note in notes:
        click.echo(mask(note))
    click.echo("nothing was written")
    return 1 if failed else 0
