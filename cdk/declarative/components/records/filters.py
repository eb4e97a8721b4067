"""RecordFilter: decides which records to keep."""

from cdk.base.values import JsonObject
from cdk.declarative.components.records.transformations import Text
from cdk.declarative.model.context import BuildContext, Names
from cdk.declarative.model.request_plug_points import AnyRecordFilter, Select


class RecordFilter(AnyRecordFilter):
    """Keeps the records for which a condition holds.

    Example:
        type: RecordFilter
        condition: "{{ record['status'] in ['active', 'expired'] }}"
    """

    condition: Text = ""
    """Whether to emit a record; reads `record` and `stream_slice`. An empty condition emits none, as in Airbyte."""

    def build(self, ctx: BuildContext) -> Select:
        condition = ctx.expression(self, "condition")
        template = condition.template
        if template is None or condition.fixed:

            def all_or_none(records: list[JsonObject], names: Names) -> list[JsonObject]:
                return records if condition.true(names) else []

            return all_or_none

        def select(records: list[JsonObject], names: Names) -> list[JsonObject]:
            return template.matching(condition.scope(names), records)

        return select
