"""Custom components: Python classes that come with a manifest. They run only where the user allows it.

The opener of the manifest passes what builds them (`Runtime.custom`); without it, each is a ManifestError.
"""

from typing import Any

from pydantic import Field

from cdk.base.errors import ManifestError
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.plug_points import (
    AnyAuthenticator,
    AnyBackoffStrategy,
    AnyConfigTransformation,
    AnyDecoder,
    AnyErrorHandler,
    AnyExtractor,
    AnyIncrementalSync,
    AnyPaginationStrategy,
    AnyPartitionRouter,
    AnyRecordFilter,
    AnyRequester,
    AnyRetriever,
    AnySchemaLoader,
    AnySchemaNormalization,
    AnyStateMigration,
    AnyTransformation,
    AnyValidationStrategy,
)


class CustomComponent(Component, type=None):
    """A component that is a Python class. All its other fields are for the class, so each one says `extra="allow"`."""

    class_name: str = Field(description="Module and class, such as `source_x.components.MyExtractor`.")

    def build(self, ctx: BuildContext, *parts: object, **options: object) -> Any:  # noqa: ANN401 - each family has its own
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


class CustomAuthenticator(CustomComponent, AnyAuthenticator, extra="allow"):
    """Adds credentials with a class of its own.

    Example:
        type: CustomAuthenticator
        class_name: components.MyAuthenticator
        client_id: "{{ config.client_id }}"
    """


class CustomBackoffStrategy(CustomComponent, AnyBackoffStrategy, extra="allow"):
    """Says how long to wait with a class of its own."""


class CustomConfigTransformation(CustomComponent, AnyConfigTransformation, extra="allow"):
    """Changes the config with a class of its own."""


class CustomDecoder(CustomComponent, AnyDecoder, extra="allow"):
    """Reads bodies with a class of its own."""


class CustomErrorHandler(CustomComponent, AnyErrorHandler, extra="allow"):
    """Judges answers with a class of its own.

    Example:
        type: CustomErrorHandler
        class_name: components.MyErrorHandler
        max_retries: 3
    """


class CustomIncrementalSync(CustomComponent, AnyIncrementalSync, extra="allow"):
    """Advances by a class that extends `DatetimeBasedCursor`; other classes are refused.

    Example:
        type: CustomIncrementalSync
        class_name: components.MyIncrementalSync
        cursor_field: updated_at
    """


class CustomPaginationStrategy(CustomComponent, AnyPaginationStrategy, extra="allow"):
    """Finds the next page with a class of its own.

    Example:
        type: CustomPaginationStrategy
        class_name: components.MyPaginationStrategy
        page_size: 100
    """


class CustomPartitionRouter(CustomComponent, AnyPartitionRouter, extra="allow"):
    """Finds the partitions with a class of its own."""


class CustomRecordExtractor(CustomComponent, AnyExtractor, extra="allow"):
    """Finds the records of a response with a class of its own.

    Example:
        type: CustomRecordExtractor
        class_name: components.MyRecordExtractor
        field_path: [data]
    """


class CustomRecordFilter(CustomComponent, AnyRecordFilter, extra="allow"):
    """Keeps records with a class of its own."""


class CustomRequester(CustomComponent, AnyRequester, extra="allow"):
    """Says what to ask for with a class of its own.

    Example:
        type: CustomRequester
        class_name: components.MyRequester
        url_base: https://api.example.com
    """


class CustomRetriever(CustomComponent, AnyRetriever, extra="allow"):
    """Reads slices with a class of its own."""


class CustomSchemaLoader(CustomComponent, AnySchemaLoader, extra="allow"):
    """Finds the schema with a class of its own."""


class CustomSchemaNormalization(CustomComponent, AnySchemaNormalization, extra="allow"):
    """Casts values with a class of its own."""


class CustomStateMigration(CustomComponent, AnyStateMigration, extra="allow"):
    """Turns old states into today's with a class of its own."""


class CustomTransformation(CustomComponent, AnyTransformation, extra="allow"):
    """Changes records with a class of its own."""


class CustomValidationStrategy(CustomComponent, AnyValidationStrategy, extra="allow"):
    """Looks at a value with a class of its own."""
