"""The suite notices what a connector does wrong, by itself, and has nothing against one that does all right."""

from collections.abc import Mapping
from typing import ClassVar

import pytest

from cdk.testing import ConnectorSuite, MockApi, Nonconforming
from cdk.testing.run import Connector
from tests.testing.blog import CONFIG as BLOG_CONFIG
from tests.testing.blog import Blog, blog_api
from tests.testing.conformance.broken import BUGS, CONFIG, Ledger, ledger_api


class TestGoodLedger(ConnectorSuite):
    source = Ledger
    config: ClassVar[Mapping[str, str]] = CONFIG

    def transport(self) -> MockApi:
        return ledger_api()


class TestGoodBlog(ConnectorSuite):
    """With substreams, and a login before the first request."""

    source = Blog
    config: ClassVar[Mapping[str, str]] = BLOG_CONFIG
    bad_configs: ClassVar[list[Mapping[str, str]]] = [{}]
    now = "2024-06-01T00:00:00Z"

    def transport(self) -> MockApi:
        return blog_api()


def test_a_first_read_that_fails_says_why_once_in_full_and_then_in_a_line() -> None:
    class Suite(ConnectorSuite):
        source = Ledger
        config: ClassVar[Mapping[str, str]] = CONFIG

        def transport(self) -> MockApi:
            api = MockApi()
            api.get("/other")
            return api

    texts = []
    for test in [name for name in dir(Suite) if name.startswith("test_")]:
        try:
            getattr(Suite(), test)()
        except Nonconforming as error:
            texts.append(str(error))

    why = "a first read fails: no route for GET https://"
    assert texts[0].startswith(why)
    assert "the routes are:\n  GET /other" in texts[0]
    assert len(texts) > 10
    assert all(
        text.startswith(f"another test reports this in full: {why}") and "/other" not in text for text in texts[1:]
    )


def test_a_present_before_the_start_of_a_cursor_is_named() -> None:
    class Suite(ConnectorSuite):
        source = Blog
        config: ClassVar[Mapping[str, str]] = BLOG_CONFIG
        now = "2001-01-01T00:00:00Z"

        def transport(self) -> MockApi:
            return blog_api()

    with pytest.raises(Nonconforming, match="nothing to read before 2001-01-01T00:00:00Z, the present of the suite"):
        Suite().test_each_stream_brings_what_it_declares()


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_of_a_connector_is_noticed_and_explained(name: str) -> None:
    bug = BUGS[name]

    class Suite(ConnectorSuite):
        source: ClassVar[Connector] = bug.source
        config: ClassVar[Mapping[str, str]] = CONFIG

        def transport(self) -> MockApi:
            return ledger_api()

    (test,) = [attribute for attribute in dir(Suite) if attribute.startswith(f"test_{bug.noticed_by}")]
    with pytest.raises(Nonconforming) as caught:
        getattr(Suite(), test)()

    text = str(caught.value)
    assert bug.words in text
    assert [line.split()[0] for line in text.splitlines()[-3:]] == ["where:", "expected:", "do"]
    assert CONFIG["api_key"] not in text
