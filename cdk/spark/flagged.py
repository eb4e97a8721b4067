"""FlaggedTable: a Delta table whose stale rows are flagged, or deleted."""

from collections.abc import Sequence

import pyarrow as pa
from deltalake import DeltaTable, Schema

from cdk.base.times.clock import Clock, system_clock
from cdk.lake.arrow.columns import MOMENT
from cdk.lake.parquet.dedup import DELETED_AT
from cdk.lake.storage.folder import Place


class FlaggedTable:
    """Removes and revives rows by key, each call in a commit of its own; for `cdk.spark.stale.StaleRows`.

    A row is removed when `column` holds the moment of its removal. A table without that column gets it. keys: columns
    that tell rows apart; a null is a key like any other.
    """

    def __init__(
        self, place: Place, keys: Sequence[str], *, column: str = DELETED_AT, clock: Clock = system_clock
    ) -> None:
        self._place, self._keys, self._column, self._clock = place, tuple(keys), column, clock

    def remove(self, keys: pa.Table, *, hard: bool) -> pa.Table:
        """Flag the rows of these keys, or delete them; all are confirmed when it returns."""
        with self._place.explaining():
            table = self._table()
            marked = keys.append_column(self._column, self._now(keys.num_rows))
            merge = table.merge(marked, self._same(), source_alias="gone", target_alias="rows", merge_schema=False)
            if hard:
                merge.when_matched_delete().execute()
            else:
                shown = f"rows.`{self._column}` is null"
                merge.when_matched_update({f"`{self._column}`": f"gone.`{self._column}`"}, shown).execute()
        return keys

    def revive(self, keys: pa.Table) -> pa.Table:
        """Take the flag off the rows of these keys."""
        with self._place.explaining():
            merge = self._table().merge(keys, self._same(), source_alias="gone", target_alias="rows")
            merge.when_matched_update({f"`{self._column}`": "null"}, f"rows.`{self._column}` is not null").execute()
        return keys

    def _table(self) -> DeltaTable:
        table = DeltaTable(self._place.uri, storage_options=self._place.storage_options)
        if self._column not in {field.name for field in table.schema().fields}:
            table.alter.add_columns(Schema.from_arrow(pa.schema([(self._column, MOMENT)])).fields)
        return table

    def _same(self) -> str:
        return " and ".join(f"(rows.`{key}` is not distinct from gone.`{key}`)" for key in self._keys)

    def _now(self, count: int) -> pa.Array:
        return pa.repeat(pa.scalar(self._clock(), MOMENT), count)
