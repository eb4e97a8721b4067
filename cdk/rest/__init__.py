"""The front door of the HTTP layer: what a connector author needs to read an API.

Its names are imported on first use, so that importing a module of this package does not import all the others.
"""

from typing import TYPE_CHECKING

from cdk.base.first_use import lazy_names

if TYPE_CHECKING:  # importing them at run time would import the whole layer
    from cdk.rest.auth.oauth2 import OAuth2, StoredTokens
    from cdk.rest.auth.static import ApiKey, Basic, Bearer
    from cdk.rest.auth.token_pool import TokenRotation
    from cdk.rest.cached_transport import CachedTransport
    from cdk.rest.client import HttpClient
    from cdk.rest.conditional_requests import ConditionalStream
    from cdk.rest.declared.resources import resource
    from cdk.rest.declared.source import RestSource
    from cdk.rest.errors.error_handler import IGNORE, SUCCESS, Action, ErrorHandler, Verdict, fail, rate_limited, retry
    from cdk.rest.errors.http_error_handler import HttpErrorHandler
    from cdk.rest.errors.retry_policy import RetryPolicy
    from cdk.rest.errors.status_errors import BadRequest, error_for, error_text
    from cdk.rest.errors.wait_strategies import Backoff, retry_after
    from cdk.rest.http.authenticator import Authenticator
    from cdk.rest.http.json_path import Extract, path
    from cdk.rest.http.messages import Headers, Request, Response
    from cdk.rest.http.origin import ForeignHost
    from cdk.rest.http.transport import HttpTransport, Transport
    from cdk.rest.http_stream import HttpStream
    from cdk.rest.limits.budget import Budget
    from cdk.rest.pagination.next_link import CursorToken, LinkHeader
    from cdk.rest.pagination.page_number import Offset, PageNumber
    from cdk.rest.pagination.paginator import Paginator, SinglePage
    from cdk.rest.records.decoder import Decoder, JsonDocument
    from cdk.rest.records.decoders.json_items import JsonItems
    from cdk.rest.records.decoders.packed_formats import GzipFile, ZipArchive
    from cdk.rest.records.decoders.text_formats import CsvRows, Jsonl, TextLines
    from cdk.rest.records.decoders.xml_document import XmlDocument
    from cdk.rest.retriever import PageRetriever, Retriever
    from cdk.streams.page import Token

__all__ = [
    "IGNORE",
    "SUCCESS",
    "Action",
    "ApiKey",
    "Authenticator",
    "Backoff",
    "BadRequest",
    "Basic",
    "Bearer",
    "Budget",
    "CachedTransport",
    "ConditionalStream",
    "CsvRows",
    "CursorToken",
    "Decoder",
    "ErrorHandler",
    "Extract",
    "ForeignHost",
    "GzipFile",
    "Headers",
    "HttpClient",
    "HttpErrorHandler",
    "HttpStream",
    "HttpTransport",
    "JsonDocument",
    "JsonItems",
    "Jsonl",
    "LinkHeader",
    "OAuth2",
    "Offset",
    "PageNumber",
    "PageRetriever",
    "Paginator",
    "Request",
    "Response",
    "RestSource",
    "Retriever",
    "RetryPolicy",
    "SinglePage",
    "StoredTokens",
    "TextLines",
    "Token",
    "TokenRotation",
    "Transport",
    "Verdict",
    "XmlDocument",
    "ZipArchive",
    "error_for",
    "error_text",
    "fail",
    "path",
    "rate_limited",
    "resource",
    "retry",
    "retry_after",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__)
