"""Pages whose requests are known before the page that comes first: counted ones. They are requested ahead.

The page behind the last one is only known by the last one: a request or more is sent for nothing there, never more than
slices that are read at once. So it is with requests that only read, and not where records decide when to stop.
"""

from collections.abc import Callable
from functools import partial
from typing import cast

from cdk.base.process.read_ahead import ReadAhead, current_read_ahead
from cdk.base.values import Stored
from cdk.rest.client import HttpClient
from cdk.rest.http.messages import Request, Response


def send_with_later(
    client: HttpClient, request: Request, token: Stored, later: Callable[[Stored], tuple[Stored, Request] | None]
) -> Response:
    """The response to the request of a page, which may have been sent ahead; those of later ones are, from now on.

    token: of the page. later: the token and the request of the page behind that of a token; None: nobody knows.
    Raises what the client raises.
    """
    ahead = cast("ReadAhead[Response] | None", current_read_ahead())
    if ahead is None or request.method != "GET" or request.stream:
        return client.send(request)
    response, last = ahead.response_to(request), ahead.last(token)
    while (following := later(last)) is not None and ahead.start(*following, partial(client.send, following[1])):
        last = following[0]
    return client.send(request) if response is None else response()
