"""Custom components: Python classes that come with a manifest. They run only where the user allows it.

Whoever opens the manifest passes what builds them (`Runtime.custom`); without it, each is a ManifestError.
"""

from typing import Literal

from cdk.declarative.model.custom_code import CustomComponent
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


class CustomAuthenticator(CustomComponent, AnyAuthenticator, extra="allow"):
    """Adds credentials with a class of its own.

    Example:
        type: CustomAuthenticator
        class_name: components.MyAuthenticator
        client_id: "{{ config.client_id }}"
    """

    type: Literal["CustomAuthenticator"] = "CustomAuthenticator"


class CustomBackoffStrategy(CustomComponent, AnyBackoffStrategy, extra="allow"):
    """Says how long to wait with a class of its own.

    Example:
        type: CustomBackoffStrategy
        class_name: components.MyBackoffStrategy
    """

    type: Literal["CustomBackoffStrategy"] = "CustomBackoffStrategy"


class CustomConfigTransformation(CustomComponent, AnyConfigTransformation, extra="allow"):
    """Changes the config with a class of its own.

    Example:
        type: CustomConfigTransformation
        class_name: components.MyConfigTransformation
    """

    type: Literal["CustomConfigTransformation"] = "CustomConfigTransformation"


class CustomDecoder(CustomComponent, AnyDecoder, extra="allow"):
    """Reads bodies with a class of its own.

    Example:
        type: CustomDecoder
        class_name: components.MyDecoder
    """

    type: Literal["CustomDecoder"] = "CustomDecoder"


class CustomErrorHandler(CustomComponent, AnyErrorHandler, extra="allow"):
    """Judges answers with a class of its own.

    Example:
        type: CustomErrorHandler
        class_name: components.MyErrorHandler
        max_retries: 3
    """

    type: Literal["CustomErrorHandler"] = "CustomErrorHandler"


class CustomIncrementalSync(CustomComponent, AnyIncrementalSync, extra="allow"):
    """Advances by a class that extends `DatetimeBasedCursor`; other classes are refused.

    Example:
        type: CustomIncrementalSync
        class_name: components.MyIncrementalSync
        cursor_field: updated_at
    """

    type: Literal["CustomIncrementalSync"] = "CustomIncrementalSync"


class CustomPaginationStrategy(CustomComponent, AnyPaginationStrategy, extra="allow"):
    """Finds the next page with a class of its own.

    Example:
        type: CustomPaginationStrategy
        class_name: components.MyPaginationStrategy
        page_size: 100
    """

    type: Literal["CustomPaginationStrategy"] = "CustomPaginationStrategy"


class CustomPartitionRouter(CustomComponent, AnyPartitionRouter, extra="allow"):
    """Finds the partitions with a class of its own.

    Example:
        type: CustomPartitionRouter
        class_name: components.MyPartitionRouter
    """

    type: Literal["CustomPartitionRouter"] = "CustomPartitionRouter"


class CustomRecordExtractor(CustomComponent, AnyExtractor, extra="allow"):
    """Finds the records of a response with a class of its own.

    Example:
        type: CustomRecordExtractor
        class_name: components.MyRecordExtractor
        field_path: [data]
    """

    type: Literal["CustomRecordExtractor"] = "CustomRecordExtractor"


class CustomRecordFilter(CustomComponent, AnyRecordFilter, extra="allow"):
    """Keeps records with a class of its own.

    Example:
        type: CustomRecordFilter
        class_name: components.MyRecordFilter
    """

    type: Literal["CustomRecordFilter"] = "CustomRecordFilter"


class CustomRequester(CustomComponent, AnyRequester, extra="allow"):
    """Says what to ask for with a class of its own.

    Example:
        type: CustomRequester
        class_name: components.MyRequester
        url_base: https://api.example.com
    """

    type: Literal["CustomRequester"] = "CustomRequester"


class CustomRetriever(CustomComponent, AnyRetriever, extra="allow"):
    """Reads slices with a class of its own.

    Example:
        type: CustomRetriever
        class_name: components.MyRetriever
    """

    type: Literal["CustomRetriever"] = "CustomRetriever"


class CustomSchemaLoader(CustomComponent, AnySchemaLoader, extra="allow"):
    """Finds the schema with a class of its own.

    Example:
        type: CustomSchemaLoader
        class_name: components.MySchemaLoader
    """

    type: Literal["CustomSchemaLoader"] = "CustomSchemaLoader"


class CustomSchemaNormalization(CustomComponent, AnySchemaNormalization, extra="allow"):
    """Casts values with a class of its own.

    Example:
        type: CustomSchemaNormalization
        class_name: components.MySchemaNormalization
    """

    type: Literal["CustomSchemaNormalization"] = "CustomSchemaNormalization"


class CustomStateMigration(CustomComponent, AnyStateMigration, extra="allow"):
    """Turns old states into today's with a class of its own.

    Example:
        type: CustomStateMigration
        class_name: components.MyStateMigration
    """

    type: Literal["CustomStateMigration"] = "CustomStateMigration"


class CustomTransformation(CustomComponent, AnyTransformation, extra="allow"):
    """Changes records with a class of its own.

    Example:
        type: CustomTransformation
        class_name: components.MyTransformation
    """

    type: Literal["CustomTransformation"] = "CustomTransformation"


class CustomValidationStrategy(CustomComponent, AnyValidationStrategy, extra="allow"):
    """Looks at a value with a class of its own.

    Example:
        type: CustomValidationStrategy
        class_name: components.MyValidationStrategy
    """

    type: Literal["CustomValidationStrategy"] = "CustomValidationStrategy"
