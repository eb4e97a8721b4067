"""Pages whose requests are known before the page that comes first: counted ones. They are requested ahead.

The page behind the last one is only known by the last one: a request or more is sent for nothing there, never more than
slices that are read at once. So it is with requests that only read, and not where records decide when to stop, nor
where a budget would have them wait.
"""

from collections.abc import Callable
from functools import partial
from typing import cast

from cdk.base.process.read_ahead import ReadAhead, current_read_ahead
from cdk.base.values import Stored
from cdk.rest.client import HttpClient
from cdk.rest.http.messages import Request, Response
from cdk.rest.limits.task_budgets import SliceTerm, waiting


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
    sent, last = ahead.response_to(request), ahead.last(token)
    while ahead.more and (following := later(last)) is not None:
        last, next_request = following
        if not ahead.start(last, next_request, partial(_send_at_once, client, next_request)):
            break
    response = sent()
    return client.send(request) if response is None else response


def _send_at_once(client: HttpClient, request: Request) -> Response:
    """Send a request ahead. Raises TermEnded: a budget has no turn for it yet. Raises what the client raises."""
    with waiting(SliceTerm(lambda: 0.0)):
        return client.send(request)
