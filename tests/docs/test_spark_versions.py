"""The page about versions of Spark shows what the kit asks for."""

from cdk.spark.cluster.spark_versions import VERSIONS, Ability, can
from tests.docs.page import DOCS


def test_the_table_is_what_each_version_can_do() -> None:
    page = (DOCS / "reference" / "spark-versions.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("|")]
    head, _, *cells = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]

    assert head == ["what", *(".".join(map(str, version)) for version in VERSIONS)]
    assert cells == [
        [ability, *("works" if can(version, ability) else "refused" for version in VERSIONS)] for ability in Ability
    ]
