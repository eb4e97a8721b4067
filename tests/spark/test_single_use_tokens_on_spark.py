"""Tasks of a real session read an API whose refresh tokens work once."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdk.spark import register
from tests.spark.datasource.test_tokens import TOKENS, options
from tests.spark.single_use import ALL, FIRST, Login, serving, sync
from tests.spark.test_single_use_tokens import KINDS, check_hidden, check_whole


@pytest.mark.spark
@pytest.mark.parametrize("kind", KINDS)
def test_tasks_of_spark_use_the_token_of_the_driver(
    session: SparkSession,  # noqa: ARG001 - it is the one that runs
    kind: str,
    tmp_path: Path,
) -> None:
    with serving(Login(uses=20)) as login:
        for _ in range(2):
            result = sync(tmp_path, kind, login.address, workers=None, interval=30)
            assert result.ok, [report.failure for report in result.streams]
            assert login.spent == 0

    assert login.calls <= 2 + login.reads // 20
    check_whole(tmp_path)
    check_hidden(tmp_path)


@pytest.mark.spark
@pytest.mark.parametrize("kind", KINDS)
def test_tasks_of_spark_use_the_token_of_the_plan(session: SparkSession, kind: str, tmp_path: Path) -> None:
    register(session)
    with serving(Login()) as login:
        given = options(kind, tmp_path, login.address, target=str(tmp_path / "lake"))
        frames = [session.read.format("cdk").options(**given).load() for _ in range(2)]
        for frame in frames:
            assert sorted(row.id for row in frame.collect()) == ALL
        assert frames[0].join(frames[1], "id").count() == len(ALL)
        assert (login.calls, login.spent) == (1, 0)

        execution = frames[0]._jdf.queryExecution()
        plans = [plan.toString() for plan in (execution, execution.optimizedPlan(), execution.executedPlan())]
        assert not any(secret in plan for plan in plans for secret in (TOKENS, FIRST))
