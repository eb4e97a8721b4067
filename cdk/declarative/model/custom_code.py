"""The plug for custom code: what a component that is a Python class says, and who builds the object of that class."""

from typing import Any

from pydantic import Field

from cdk.base.errors import ManifestError
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext


class CustomComponent(Component, type=None):
    """A component that is a Python class. All its other fields are for the class, so each one says `extra="allow"`."""

    class_name: str = Field(description="Module and class, such as `source_x.components.MyExtractor`.")

    def build(self, ctx: BuildContext, *parts: object, **options: object) -> Any:  # noqa: ANN401, ARG002 - each family has its own
        """The object of the class, behind the interface of its family. parts: what the family's `build` gets besides.

        Raises ManifestError: custom code may not run, or the class cannot be built.
        """
        custom = ctx.runtime.custom
        if custom is None:
            raise ManifestError(
                f"{ctx.where(self, 'class_name')}: {self.class_name} is Python code that comes with the manifest; it "
                "runs only where you say so: --allow-custom-code, or AIRBYTE_ENABLE_UNSAFE_CODE=true"
            )
        return custom.build(self, ctx, *parts)
