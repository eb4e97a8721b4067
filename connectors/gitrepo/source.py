"""The source of a Git repository: its config."""

from cdk import JsonSchema, Source
from connectors.gitrepo.streams import Commits, Refs

CONFIG: JsonSchema = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Git repository",
    "type": "object",
    "required": ["repository"],
    "additionalProperties": True,
    "properties": {
        "repository": {
            "type": "string",
            "title": "Repository",
            "description": "Its folder, with or without a work tree",
            "examples": ["/srv/git/project.git"],
            "order": 0,
        },
        "page_size": {"type": "integer", "title": "Commits at once", "minimum": 1, "default": 500, "order": 1},
    },
}


class GitRepo(Source):
    """Branches, tags and commits."""

    name = "gitrepo"
    config_schema = CONFIG
    stream_classes = (Refs, Commits)
