"""A small connector that has no line for its tests, and its API."""

from cdk import DatetimeCursor, Json, JsonSchema, Partition, Slice, Source, parent_partitions
from cdk.rest import Authenticator, HttpStream, OAuth2, PageNumber
from cdk.testing import MockApi

URL = "https://api.blog.test"
CONFIG = {"secret": "s3cret-of-the-app"}
USER: JsonSchema = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": ["string", "null"]}}}
POST: JsonSchema = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "written_at": {"type": "string", "format": "date-time"}},
}
SPEC: JsonSchema = {
    "type": "object",
    "required": ["secret"],
    "properties": {"secret": {"type": "string", "airbyte_secret": True}},
}


class Users(HttpStream):
    url_base = URL
    primary_key = "id"
    paginator = PageNumber(size=2)
    records_path = ("users",)
    schema = USER

    def path(self, slice: Slice) -> str:  # noqa: ARG002 - all are at one path
        return "/users"

    def authenticator(self) -> Authenticator | None:
        return OAuth2(f"{URL}/token", client_id="app", client_secret=self.config["secret"])


class Posts(Users):
    paginator = PageNumber(size=2, more=["has_more"])
    records_path = ("posts",)
    cursor = DatetimeCursor("written_at", start="2024-01-01T00:00:00Z")
    schema = POST

    def partitions(self) -> list[Partition]:
        return list(parent_partitions(Users(self.config), user="id"))

    def path(self, slice: Slice) -> str:
        return f"/users/{slice.partition['user']}/posts"

    def params(self, slice: Slice) -> dict[str, Json]:
        return {"since": slice.window and slice.window.start}


class Blog(Source):
    stream_classes = (Users, Posts)
    config_schema = SPEC


def blog_api(*, uses: int = 100) -> MockApi:
    """Three users, of whom each has a post of his own number."""
    api = MockApi()
    api.issues_tokens("/token", uses=uses)
    api.get("/users").serves([{"id": number, "name": f"user {number}"} for number in (1, 2, 3)], size=2, at="users")
    for user in (1, 2, 3):
        posts = [{"id": user, "written_at": f"2024-03-0{user}T00:00:00Z"}]
        api.get(f"/users/{user}/posts").returns(json={"posts": posts, "has_more": False})
    return api
