"""Custom components: Python classes that come with a manifest. They run only where it is said that they may.

What they are built into lives in `cdk.compat`, which is imported when the first of them is built.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Literal

from pydantic import ConfigDict, Field

from cdk.base.values import Json, JsonSchema
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
    Backoff,
    Incremental,
    Normalize,
    PageStrategy,
    Requester,
    Router,
    Select,
    SliceReader,
    StreamParts,
    Transform,
)
from cdk.rest import Authenticator, Decoder, ErrorHandler
from cdk.rest.records.extractor import Extractor


class CustomComponent(Component):
    """A component that is a Python class. All its other fields are for the class."""

    model_config = ConfigDict(extra="allow")

    class_name: str = Field(description="Module and class, such as `source_x.components.MyExtractor`.")


class CustomAuthenticator(AnyAuthenticator, CustomComponent):
    """Adds credentials with a class of its own.

    Example:
        type: CustomAuthenticator
        class_name: components.MyAuthenticator
        client_id: "{{ config.client_id }}"
    """

    type: Literal["CustomAuthenticator"] = "CustomAuthenticator"

    def build(self, ctx: BuildContext) -> Authenticator | None:
        """See AnyAuthenticator. Raises ManifestError: custom code may not run, or the class cannot be made."""
        made: Authenticator | None = _custom().authenticator(self, ctx)
        return made


class CustomBackoffStrategy(AnyBackoffStrategy, CustomComponent):
    """Says how long to wait with a class of its own.

    Example:
        type: CustomBackoffStrategy
        class_name: components.MyBackoffStrategy
    """

    type: Literal["CustomBackoffStrategy"] = "CustomBackoffStrategy"

    def build(self, ctx: BuildContext) -> Backoff:
        """See AnyBackoffStrategy. Raises ManifestError: custom code may not run, or the class cannot be made."""
        made: Backoff = _custom().backoff(self, ctx)
        return made


class CustomConfigTransformation(AnyConfigTransformation, CustomComponent):
    """Changes the config with a class of its own.

    Example:
        type: CustomConfigTransformation
        class_name: components.MyConfigTransformation
    """

    type: Literal["CustomConfigTransformation"] = "CustomConfigTransformation"

    def build(self, ctx: BuildContext) -> Callable[[dict[str, Json]], None]:
        """See AnyConfigTransformation. Raises ManifestError: custom code may not run, or the class cannot be made."""
        made: Callable[[dict[str, Json]], None] = _custom().config_transformation(self, ctx)
        return made


class CustomDecoder(AnyDecoder, CustomComponent):
    """Reads bodies with a class of its own.

    Example:
        type: CustomDecoder
        class_name: components.MyDecoder
    """

    type: Literal["CustomDecoder"] = "CustomDecoder"

    def build(self, ctx: BuildContext) -> Decoder:
        """See AnyDecoder. Raises ManifestError: custom code may not run, or the class cannot be made."""
        made: Decoder = _custom().decoder(self, ctx)
        return made


class CustomErrorHandler(AnyErrorHandler, CustomComponent):
    """Judges answers with a class of its own.

    Example:
        type: CustomErrorHandler
        class_name: components.MyErrorHandler
        max_retries: 3
    """

    type: Literal["CustomErrorHandler"] = "CustomErrorHandler"

    def build(self, ctx: BuildContext) -> ErrorHandler:
        """See AnyErrorHandler. Raises ManifestError: custom code may not run, or the class cannot be made."""
        made: ErrorHandler = _custom().error_handler(self, ctx)
        return made


class CustomIncrementalSync(AnyIncrementalSync, CustomComponent):
    """Advances by a class that extends `DatetimeBasedCursor`; other classes are refused.

    Example:
        type: CustomIncrementalSync
        class_name: components.MyIncrementalSync
        cursor_field: updated_at
    """

    type: Literal["CustomIncrementalSync"] = "CustomIncrementalSync"

    def build(self, ctx: BuildContext) -> Incremental:
        """See AnyIncrementalSync. Raises ManifestError: custom code may not run, or the class cannot be made."""
        made: Incremental = _custom().incremental(self, ctx)
        return made


class CustomPaginationStrategy(AnyPaginationStrategy, CustomComponent):
    """Finds the next page with a class of its own.

    Example:
        type: CustomPaginationStrategy
        class_name: components.MyPaginationStrategy
        page_size: 100
    """

    type: Literal["CustomPaginationStrategy"] = "CustomPaginationStrategy"

    def build(self, ctx: BuildContext, decoder: Decoder) -> PageStrategy:
        """See AnyPaginationStrategy. Raises ManifestError: custom code may not run, or the class cannot be made."""
        made: PageStrategy = _custom().pagination_strategy(self, ctx, decoder)
        return made


class CustomPartitionRouter(AnyPartitionRouter, CustomComponent):
    """Finds the partitions with a class of its own.

    Example:
        type: CustomPartitionRouter
        class_name: components.MyPartitionRouter
    """

    type: Literal["CustomPartitionRouter"] = "CustomPartitionRouter"

    def build(self, ctx: BuildContext) -> Router:
        """See AnyPartitionRouter. Raises ManifestError: custom code may not run, or the class cannot be made."""
        made: Router = _custom().partition_router(self, ctx)
        return made


class CustomRecordExtractor(AnyExtractor, CustomComponent):
    """Finds the records of a response with a class of its own.

    Example:
        type: CustomRecordExtractor
        class_name: components.MyRecordExtractor
        field_path: [data]
    """

    type: Literal["CustomRecordExtractor"] = "CustomRecordExtractor"

    def build(self, ctx: BuildContext, decoder: Decoder) -> Extractor:
        """See AnyExtractor. Raises ManifestError: custom code may not run, or the class cannot be made."""
        made: Extractor = _custom().extractor(self, ctx, decoder)
        return made


class CustomRecordFilter(AnyRecordFilter, CustomComponent):
    """Keeps records with a class of its own.

    Example:
        type: CustomRecordFilter
        class_name: components.MyRecordFilter
    """

    type: Literal["CustomRecordFilter"] = "CustomRecordFilter"

    def build(self, ctx: BuildContext) -> Select:
        """See AnyRecordFilter. Raises ManifestError: custom code may not run, or the class cannot be made."""
        made: Select = _custom().record_filter(self, ctx)
        return made


class CustomRequester(AnyRequester, CustomComponent):
    """Says what to ask for with a class of its own.

    Example:
        type: CustomRequester
        class_name: components.MyRequester
        url_base: https://api.example.com
    """

    type: Literal["CustomRequester"] = "CustomRequester"

    def build(self, ctx: BuildContext, *, decoder: Decoder | None = None, cached: bool = False) -> Requester:
        """See AnyRequester. Raises ManifestError: custom code may not run, or the class cannot be made."""
        made: Requester = _custom().requester(self, ctx)
        return made


class CustomRetriever(AnyRetriever, CustomComponent):
    """Reads slices with a class of its own.

    Example:
        type: CustomRetriever
        class_name: components.MyRetriever
    """

    type: Literal["CustomRetriever"] = "CustomRetriever"

    def build(self, ctx: BuildContext, parts: StreamParts) -> SliceReader:
        """See AnyRetriever. Raises ManifestError: custom code may not run, or the class cannot be made."""
        made: SliceReader = _custom().retriever(self, ctx, parts)
        return made


class CustomSchemaLoader(AnySchemaLoader, CustomComponent):
    """Finds the schema with a class of its own.

    Example:
        type: CustomSchemaLoader
        class_name: components.MySchemaLoader
    """

    type: Literal["CustomSchemaLoader"] = "CustomSchemaLoader"

    def build(self, ctx: BuildContext) -> Callable[[], JsonSchema]:
        """See AnySchemaLoader. Raises ManifestError: custom code may not run, or the class cannot be made."""
        made: Callable[[], JsonSchema] = _custom().schema_loader(self, ctx)
        return made


class CustomSchemaNormalization(AnySchemaNormalization, CustomComponent):
    """Casts values with a class of its own.

    Example:
        type: CustomSchemaNormalization
        class_name: components.MySchemaNormalization
    """

    type: Literal["CustomSchemaNormalization"] = "CustomSchemaNormalization"

    def build(self, ctx: BuildContext, schema: JsonSchema) -> Normalize:
        """See AnySchemaNormalization. Raises ManifestError: custom code may not run, or the class cannot be made."""
        made: Normalize = _custom().normalization(self, ctx, schema)
        return made


class CustomStateMigration(AnyStateMigration, CustomComponent):
    """Turns old states into today's with a class of its own.

    Example:
        type: CustomStateMigration
        class_name: components.MyStateMigration
    """

    type: Literal["CustomStateMigration"] = "CustomStateMigration"

    def build(self, ctx: BuildContext, stream: Component) -> Callable[[Json], Json]:
        """See AnyStateMigration. Raises ManifestError: custom code may not run, or the class cannot be made."""
        made: Callable[[Json], Json] = _custom().state_migration(self, ctx, stream)
        return made


class CustomTransformation(AnyTransformation, CustomComponent):
    """Changes records with a class of its own.

    Example:
        type: CustomTransformation
        class_name: components.MyTransformation
    """

    type: Literal["CustomTransformation"] = "CustomTransformation"

    def build(self, ctx: BuildContext) -> Transform:
        """See AnyTransformation. Raises ManifestError: custom code may not run, or the class cannot be made."""
        made: Transform = _custom().transformation(self, ctx)
        return made


class CustomValidationStrategy(AnyValidationStrategy, CustomComponent):
    """Looks at a value with a class of its own.

    Example:
        type: CustomValidationStrategy
        class_name: components.MyValidationStrategy
    """

    type: Literal["CustomValidationStrategy"] = "CustomValidationStrategy"

    def build(self, ctx: BuildContext) -> Callable[[Json], None]:
        """See AnyValidationStrategy. Raises ManifestError: custom code may not run, or the class cannot be made."""
        made: Callable[[Json], None] = _custom().validation(self, ctx)
        return made


def _custom() -> ModuleType:
    """The one seam to `cdk.compat`: it knows the manifest language, which does not know it."""
    from cdk.compat.adapters import registry as build  # noqa: PLC0415 - brings `requests`, which only custom code needs

    return build
