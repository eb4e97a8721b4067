"""The page that a response names as the next one."""

from cdk.rest.pagination.next_link import LinkHeader
from tests.rest.api import response


def test_a_link_with_parameters_is_the_next_page() -> None:
    header = '</users?page=2>; rel="next"; results="true"'

    following = LinkHeader().next(response(headers={"Link": header}), [], None)

    assert following == {"url": "https://api.test/users?page=2"}
