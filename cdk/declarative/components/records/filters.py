"""RecordFilter: decides which records to keep."""

from cdk.declarative.components.records.transformations import Text
from cdk.declarative.model.context import BuildContext
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
            return lambda records, names: records if condition.true(names) else []

        return lambda records, names: template.matching(condition.scope(names), records)
