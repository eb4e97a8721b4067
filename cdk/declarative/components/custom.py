"""Custom components: Python classes that come with a manifest. They run only if the user allows it.

The caller that opens the manifest passes their builder (`Runtime.custom`); without it, each is a ManifestError.
"""

from typing import Any

from cdk.base.errors import ManifestError
from cdk.base.values import JsonObject
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.request_plug_points import (
    AnyAuthenticator,
    AnyBackoffStrategy,
    AnyDecoder,
    AnyErrorHandler,
    AnyExtractor,
    AnyPaginationStrategy,
    AnyRecordFilter,
    AnyRequester,
    AnySchemaNormalization,
    AnyTransformation,
)
from cdk.declarative.model.stream_plug_points import (
    AnyConfigTransformation,
    AnyIncrementalSync,
    AnyPartitionRouter,
    AnyRetriever,
    AnySchemaLoader,
    AnyStateMigration,
    AnyValidationStrategy,
)


class CustomComponent(Component):
    """A component that is a Python class."""

    type_name = None

    class_name: str
    """The module and the class, such as `source_x.components.MyExtractor`."""
    further_fields: JsonObject = {}
    """The fields of the class that the manifest sets."""

    def build(self, ctx: BuildContext, *parts: object, **options: object) -> Any:  # noqa: ANN401 - differs by family
        """Build the object that the family expects. parts: the further arguments of the family's `build`.

        Raises ManifestError: when custom code may not run, or the class cannot be built.
        """
        custom = ctx.runtime.custom
        if custom is None:
            raise ManifestError(
                f"{ctx.where(self, 'class_name')}: {self.class_name} is Python code that comes with the manifest; it "
                "runs only if you allow it: --allow-custom-code, or AIRBYTE_ENABLE_UNSAFE_CODE=true"
            )
        return custom.build(self, ctx, *parts)


class CustomAuthenticator(CustomComponent, AnyAuthenticator):
    """Adds credentials using a Python class of the connector.

    Example:
        type: CustomAuthenticator
        class_name: components.MyAuthenticator
        client_id: "{{ config.client_id }}"
    """


class CustomBackoffStrategy(CustomComponent, AnyBackoffStrategy):
    """Decides how long to wait using a Python class of the connector."""


class CustomConfigTransformation(CustomComponent, AnyConfigTransformation):
    """Changes the config using a Python class of the connector."""


class CustomDecoder(CustomComponent, AnyDecoder):
    """Decodes bodies using a Python class of the connector."""


class CustomErrorHandler(CustomComponent, AnyErrorHandler):
    """Decides what responses mean using a Python class of the connector.

    Example:
        type: CustomErrorHandler
        class_name: components.MyErrorHandler
        max_retries: 3
    """


class CustomIncrementalSync(CustomComponent, AnyIncrementalSync):
    """Advances using a Python class of the connector that extends `DatetimeBasedCursor`; other classes are refused.

    Example:
        type: CustomIncrementalSync
        class_name: components.MyIncrementalSync
        cursor_field: updated_at
    """


class CustomPaginationStrategy(CustomComponent, AnyPaginationStrategy):
    """Finds the next page using a Python class of the connector.

    Example:
        type: CustomPaginationStrategy
        class_name: components.MyPaginationStrategy
        page_size: 100
    """


class CustomPartitionRouter(CustomComponent, AnyPartitionRouter):
    """Makes the partitions using a Python class of the connector."""


class CustomRecordExtractor(CustomComponent, AnyExtractor):
    """Extracts the records of a response using a Python class of the connector.

    Example:
        type: CustomRecordExtractor
        class_name: components.MyRecordExtractor
        field_path: [data]
    """


class CustomRecordFilter(CustomComponent, AnyRecordFilter):
    """Decides which records to keep using a Python class of the connector."""


class CustomRequester(CustomComponent, AnyRequester):
    """Drafts requests using a Python class of the connector.

    Example:
        type: CustomRequester
        class_name: components.MyRequester
        url_base: https://api.example.com
    """


class CustomRetriever(CustomComponent, AnyRetriever):
    """Reads slices using a Python class of the connector."""


class CustomSchemaLoader(CustomComponent, AnySchemaLoader):
    """Provides the schema using a Python class of the connector."""


class CustomSchemaNormalization(CustomComponent, AnySchemaNormalization):
    """Casts values using a Python class of the connector."""


class CustomStateMigration(CustomComponent, AnyStateMigration):
    """Converts old states to today's form using a Python class of the connector."""


class CustomTransformation(CustomComponent, AnyTransformation):
    """Changes records using a Python class of the connector."""


class CustomValidationStrategy(CustomComponent, AnyValidationStrategy):
    """Validates a value using a Python class of the connector."""
