"""What is raised when Spark is lost. Drivers are tested with their sessions: test_connect.py, test_cluster.py."""

import subprocess
import sys

import grpc
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkRuntimeError

from cdk.base.errors import TransientError
from cdk.base.task_map import TaskLost
from cdk.spark.cluster.driver import translate_lost


@pytest.mark.parametrize(
    "raised", [Py4JError("gone"), grpc.RpcError("gone"), PySparkRuntimeError("gone"), OSError("gone")]
)
def test_what_either_client_raises_is_a_transient_error(raised: Exception) -> None:
    with (
        pytest.raises(TransientError, match=f"did not finish a job \\({type(raised).__name__}\\)") as lost,
        translate_lost(),
    ):
        raise raised

    assert "gone" in str(lost.value.detail)


ABORTED = "Job aborted due to stage failure: Task 17 in stage 4.0 failed 4 times, most recent failure: "


@pytest.mark.parametrize(
    "reason", ["ExecutorLostFailure (executor 2 exited: 137)", "Python worker exited unexpectedly (crashed)"]
)
def test_a_task_whose_process_died_is_named(reason: str) -> None:
    with pytest.raises(TaskLost) as lost, translate_lost():
        raise Py4JError(ABORTED + reason)

    assert lost.value.task == 17
    assert reason in lost.value.detail


def test_a_task_that_raised_is_none_that_died() -> None:
    with pytest.raises(TransientError) as lost, translate_lost():
        raise Py4JError(f"{ABORTED}PythonException: Traceback (most recent call last)")

    assert not isinstance(lost.value, TaskLost)


def test_a_disk_that_is_full_is_said_in_the_message() -> None:
    reason = "OSError: [Errno 28] No space left on device: '/data/part-0.parquet'"
    with pytest.raises(TransientError) as lost, translate_lost():
        raise Py4JError(
            f"{ABORTED}PythonException: Traceback (most recent call last)\n  File x\n{reason}\n\tat org.apache"
        )

    assert lost.value.message == (
        f"Spark did not finish a job (Py4JError: {reason}); free some space, and then: what was committed is safe: run "
        "the sync again"
    )


def test_a_mistake_in_a_program_stays_what_it_is() -> None:
    with pytest.raises(TypeError, match="a mistake"), translate_lost():
        raise TypeError("a mistake")


def test_the_client_of_spark_connect_is_imported_only_for_a_server() -> None:
    program = "import sys, cdk.sync.loop.runner; sys.exit('grpc' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
