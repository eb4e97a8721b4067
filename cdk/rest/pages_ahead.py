"""Requests of further pages, sent ahead where a paginator counts: page 3 is known before page 2 is there.

What is sent behind the last page of a slice is wasted: fewer requests than are sent at once. So only GETs are sent
ahead, no page whose records decide whether there is a next one, none for which a budget would wait, and none where a
run may send few requests.
"""

from collections.abc import Callable
from functools import partial
from typing import cast

from cdk.base.process.read_ahead import ReadAhead, current_read_ahead
from cdk.base.process.request_lease import current_lease
from cdk.base.values import Stored
from cdk.rest.client import HttpClient
from cdk.rest.http.messages import Request, Response
from cdk.rest.limits.task_budgets import SliceTerm, waiting


def send_with_later(
    client: HttpClient, request: Request, token: Stored, later: Callable[[Stored], tuple[Stored, Request] | None]
) -> Response:
    """Send the request of a page, unless it was sent ahead; send those of further pages ahead. Returns the response.

    token: of the page. later: the token and the request of the page behind that of a token; None: unknown.
    Raises what the client raises.
    """
    ahead = cast("ReadAhead[Response] | None", current_read_ahead())
    if ahead is None or request.method != "GET" or request.stream:
        return client.send(request)
    wait_for_response, last = ahead.response_to(request), ahead.last(token)
    spares = current_lease().spares
    while spares and ahead.more and (following := later(last)) is not None:
        last, next_request = following
        if not ahead.start(last, next_request, partial(_send_unless_budget_waits, client, next_request)):
            break
    response = wait_for_response()
    return client.send(request) if response is None else response


def _send_unless_budget_waits(client: HttpClient, request: Request) -> Response:
    """Send a request ahead. Raises TermEnded: a budget has no turn for it yet. Raises what the client raises."""
    with waiting(SliceTerm(lambda: 0.0)):
        return client.send(request)
