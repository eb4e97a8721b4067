"""Buildbot: what a continuous integration server (https://buildbot.net) has built, as resources and nothing else.

What was seen on Buildbot 4.3 and decided it:

- Builds are read by the moment of their end: one that takes long ends behind others that began later.
- The steps of a build are complete with it, so only those of builds that are new are asked for. Their filter by
  `complete_at` is answered with an error 500, that by `number` is not.
"""

from cdk import CountCursor, DatetimeCursor
from cdk.rest import Offset, RestSource, resource


def buildbot(page_size: int = 100) -> RestSource:
    """The connector. page_size: records of a page."""
    return RestSource(
        "{config.url}/api/v2",
        resource(
            "builders", "/builders", records_path="builders", primary_key="builderid", params={"order": "builderid"}
        ),
        resource("workers", "/workers", records_path="workers", primary_key="workerid", params={"order": "workerid"}),
        resource(
            "builds",
            "/builders/{builders.builderid}/builds",
            records_path="builds",
            primary_key="buildid",
            params={"complete": True, "complete_at__ge": "{window.start}", "order": ["complete_at", "buildid"]},
            # Servers that share a database have clocks of their own.
            cursor=DatetimeCursor("complete_at", start="1970-01-01T00:00:00Z", formats=["%s"], lookback="PT1M"),
        ),
        resource(
            "steps",
            "/builds/{builds.buildid}/steps",
            records_path="steps",
            primary_key="stepid",
            params={"number__ge": "{window.start}", "order": "number"},
            cursor=CountCursor("number"),
            follows_parent=True,
        ),
        paginator=Offset(page_size),
        config={"url": {"type": "string", "title": "Address", "pattern": "^https?://"}},
        name="buildbot",
    )


source = buildbot()
