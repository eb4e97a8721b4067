"""What each version of Spark can do, and how it says what it cannot."""

from itertools import pairwise

import pytest

from cdk.base.errors import ConfigError
from cdk.spark.cluster.spark_versions import VERSIONS, Ability, can, require, version_of
from tests.spark.versions import HERE, REFUSED, TESTS


def test_a_newer_spark_can_do_what_an_older_one_can() -> None:
    abilities = [{ability for ability in Ability if can(version, ability)} for version in (*VERSIONS, (5, 0))]

    assert all(older <= newer for older, newer in pairwise(abilities))
    assert abilities[0] == {Ability.SYNC}
    assert abilities[-2] == abilities[-1] == set(Ability)


@pytest.mark.parametrize(
    ("ability", "installed", "words"),
    [
        (Ability.CONNECT, "3.5.9", "Spark Connect needs pyspark 4.0 or newer, found 3.5.9, which has no"),
        (Ability.READ, "3.5.0", 'spark.read.format("cdk") needs pyspark 4.0 or newer, found 3.5.0, which has no'),
        (Ability.PUSH_DOWN, "4.0.5", "install a newer one, or leave out the option push_down"),
        (Ability.STREAM, "4.1.4", 'spark.readStream.format("cdk") needs pyspark 4.2 or newer, found 4.1.4'),
    ],
)
def test_what_a_version_cannot_do_is_refused_by_name(ability: Ability, installed: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        require(ability, installed)

    assert words in str(refused.value)


def test_what_a_version_can_do_is_not_refused() -> None:
    for ability, installed in [(Ability.SYNC, "3.5.0"), (Ability.READ, "4.0.0.dev2"), (Ability.STREAM, "10.1")]:
        require(ability, installed)


def test_what_every_version_can_do_and_refuses_is_tried() -> None:
    assert set(TESTS) == set(Ability)
    assert all((HERE / test).is_file() for tests in TESTS.values() for test in tests)
    assert set(REFUSED) == {ability for ability in Ability if not can(VERSIONS[0], ability)}


def test_a_version_that_is_none_is_named() -> None:
    with pytest.raises(ConfigError, match="'unknown'"):
        version_of("unknown")
