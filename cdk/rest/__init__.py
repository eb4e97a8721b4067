"""The front door of the HTTP layer: what a connector author needs to read an API."""

from cdk.rest.auth.api_key import ApiKey
from cdk.rest.auth.authenticator import Authenticator
from cdk.rest.auth.basic import Basic
from cdk.rest.auth.bearer import Bearer
from cdk.rest.auth.oauth2 import OAuth2
from cdk.rest.backoff import Backoff, retry_after
from cdk.rest.budget import Budget
from cdk.rest.cache import CachedTransport
from cdk.rest.client import HttpClient
from cdk.rest.counting import Offset, PageNumber
from cdk.rest.decoder import Decoder, JsonDecoder
from cdk.rest.error_handler import IGNORE, SUCCESS, Action, ErrorHandler, Verdict, fail, rate_limited, retry
from cdk.rest.errors import BadRequest, error_for, error_text
from cdk.rest.extract import Extract, path
from cdk.rest.linked import CursorToken, LinkHeader
from cdk.rest.message import Headers, Request, Response
from cdk.rest.origin import ForeignHost
from cdk.rest.paginator import Paginator, SinglePage, Token
from cdk.rest.retriever import PageRetriever, Retriever
from cdk.rest.status_handler import StatusErrorHandler
from cdk.rest.stream import HttpStream
from cdk.rest.transport import RequestsTransport, Transport

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
    "CursorToken",
    "Decoder",
    "ErrorHandler",
    "Extract",
    "ForeignHost",
    "Headers",
    "HttpClient",
    "HttpStream",
    "JsonDecoder",
    "LinkHeader",
    "OAuth2",
    "Offset",
    "PageNumber",
    "PageRetriever",
    "Paginator",
    "Request",
    "RequestsTransport",
    "Response",
    "Retriever",
    "SinglePage",
    "StatusErrorHandler",
    "Token",
    "Transport",
    "Verdict",
    "error_for",
    "error_text",
    "fail",
    "path",
    "rate_limited",
    "retry",
    "retry_after",
]
