"""What every connector must do, by one that is data: parents with pages, children with a cursor each."""

from collections.abc import Mapping
from typing import ClassVar

from cdk import CountCursor, Json
from cdk.rest import Bearer, CursorToken, PageNumber, RestSource, resource
from cdk.testing import ConnectorSuite, MockApi

BLOGS = [{"id": id, "title": title} for id, title in enumerate(["one", "two", "three"], 1)]
SOURCE = RestSource(
    "{config.url}",
    resource("blogs", "/blogs", records_path="blogs", primary_key="id", paginator=PageNumber(more=["more"])),
    resource(
        "posts",
        "/blogs/{blogs.id}/posts",
        records_path="posts",
        primary_key=["blog", "id"],
        add_fields={"blog": "{blogs.id}", "title": "{blogs.title}"},
        params={"since": "{window.start}"},
        cursor=CountCursor("version"),
        paginator=CursorToken("next"),
    ),
    auth=Bearer("{config.token}"),
    name="blog",
)


class TestDeclared(ConnectorSuite):
    source = SOURCE
    config: ClassVar[Mapping[str, Json]] = {"url": "https://blog.test", "token": "s3cret"}

    def transport(self) -> MockApi:
        api, login = MockApi(), {"Authorization": "Bearer s3cret"}
        api.get("/blogs", headers=login).serves(BLOGS, size=2, at="blogs", more="more")
        posts = [{"id": id, "version": version} for id, version in enumerate([3, 1, 3, 2], 1)]
        for page, at in {"a": 0, "b": 2}.items():
            answer = {"posts": posts[at : at + 2], "next": "?page=b&since=0" if page == "a" else None}
            asked = {"page": page} if page == "b" else {}
            api.get("/blogs/*/posts", params=asked, headers=login).returns(json=answer)
        return api
