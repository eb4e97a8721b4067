"""Buildbot: the builds of a continuous integration server (https://buildbot.net), declared as resources only.

Observations on Buildbot 4.3 that shaped it:

- Builds are read in the order in which they end: a long build ends after others that started later.
- The steps of a build are complete when it ends, so they are only requested for new builds. A filter by `complete_at`
  is answered with an error 500, one by `number` is not.
"""

from cdk import CountCursor, DatetimeCursor
from cdk.rest import Offset, RestSource, resource


def buildbot(page_size: int = 100) -> RestSource:
    """Return the connector. page_size: records per page."""
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
            # Servers that share a database have separate clocks.
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
