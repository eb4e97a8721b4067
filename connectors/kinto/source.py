"""The Kinto source: its config and its check."""

from collections.abc import Mapping
from typing import ClassVar

from cdk import ConfigError, CredentialsError, FatalError, Json, JsonSchema, Source, records_of
from connectors.kinto.streams import Buckets, Collections, Records, ServerInfo

CONFIG: JsonSchema = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Kinto",
    "type": "object",
    "required": ["server"],
    "additionalProperties": True,
    "properties": {
        "server": {
            "type": "string",
            "title": "Server",
            "description": "The server's address, with the version of its API",
            "pattern": "^https?://",
            "examples": ["https://kinto.example.com/v1"],
            "order": 0,
        },
        "auth": {
            "type": "object",
            "title": "Authentication",
            "description": "Credentials; omit them to read what everyone may read",
            "order": 1,
            "oneOf": [
                {
                    "title": "Account",
                    "type": "object",
                    "required": ["type", "username", "password"],
                    "properties": {
                        "type": {"type": "string", "const": "basic"},
                        "username": {"type": "string", "title": "User name"},
                        "password": {"type": "string", "title": "Password", "airbyte_secret": True},
                    },
                },
                {
                    "title": "Bearer token",
                    "type": "object",
                    "required": ["type", "token"],
                    "properties": {
                        "type": {"type": "string", "const": "bearer"},
                        "token": {"type": "string", "title": "Token", "airbyte_secret": True},
                    },
                },
            ],
        },
        "buckets": {
            "type": "array",
            "title": "Buckets",
            "description": "The ids of the buckets to read; all that the user may list if omitted",
            "items": {"type": "string", "pattern": "^[a-zA-Z0-9][a-zA-Z0-9_-]*$"},
            "uniqueItems": True,
            "order": 2,
        },
        "page_size": {
            "type": "integer",
            "title": "Page size",
            "description": "Objects requested at once; a server may return fewer",
            "minimum": 1,
            "maximum": 10000,
            "default": 1000,
            "order": 3,
        },
        "lookback_seconds": {
            "type": "number",
            "title": "Lookback",
            "description": (
                "How far before the last change each read begins again. Set it to the longest a write may take when "
                "several clients write to one collection at once on a PostgreSQL backend, which may show a change "
                "after a later one. A sync into tables drops the duplicates."
            ),
            "minimum": 0,
            "default": 0,
            "order": 4,
        },
    },
}


class Kinto(Source):
    """Buckets, collections and records of a Kinto server."""

    name = "kinto"
    config_schema = CONFIG
    stream_classes = (Buckets, Collections, Records)
    documentation_url: ClassVar[str | None] = "https://docs.kinto-storage.org/"

    def check(self, config: Mapping[str, Json]) -> None:
        """Check that a Kinto server responds, knows the user, and lists the buckets, or the named buckets' collections.

        Raises ConfigError: when the server is not a Kinto. CredentialsError: when it does not know the user, or lists
        nothing without one. Forbidden: when a named bucket does not exist or may not be read.
        """
        server = config["server"]
        try:
            info = next(records_of(ServerInfo(config)), {})
        except FatalError as error:
            raise ConfigError(f"{_no_kinto(server)}: {error}") from error
        if "http_api_version" not in info:
            raise ConfigError(f"{_no_kinto(server)}: something else answers there")
        # Only here does Kinto distinguish a wrong password from a missing one; elsewhere both are "not allowed".
        if config.get("auth") and "user" not in info:
            raise CredentialsError(f"the server {server} does not know this user with this secret: correct `auth`")
        for bucket in config.get("buckets", ()):
            next(records_of(Collections({**config, "buckets": [bucket]})), None)
        if not config.get("buckets"):
            super().check(config)


def _no_kinto(server: str) -> str:
    return f"found no Kinto at server {server}, expected the address of its API such as https://kinto.example.com/v1"
