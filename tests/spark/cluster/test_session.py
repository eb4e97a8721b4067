"""What others on the machine can see of a session."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

STARTED = r"""
import os
from pathlib import Path
from cdk.sync.settings.pipeline_file import SparkOptions
from cdk.spark.cluster.session import open_session

secret = "s3cret=of: a\\store #1 é"
conf = {"spark.hadoop.fs.s3a.secret.key": secret, "spark.own.flag": True, "spark.sql.shuffle.partitions": 3}
spark = open_session("x", SparkOptions(conf=conf), Path("jvm.log"))
shown = b"".join(file.read_bytes() for file in Path("/proc").glob("[0-9]*/cmdline") if os.access(file, os.R_OK))
assert b"s3cret" not in shown
told = spark.sparkContext.getConf()
assert told.get("spark.hadoop.fs.s3a.secret.key") == secret
assert spark.sparkContext._jsc.hadoopConfiguration().get("fs.s3a.secret.key") == secret
assert told.get("spark.own.flag") == "True"
assert told.get("spark.of.defaults") == "kept"
assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
assert told.get("spark.app.name") == "spark-cdk x"
assert "PYSPARK_SUBMIT_ARGS" not in os.environ
spark.stop()
again = open_session("y", SparkOptions(conf={"spark.own.flag": "later"}), Path("jvm.log"))
assert again.sparkContext.getConf().get("spark.own.flag") == "later"
"""


def test_the_settings_of_a_pipeline_are_in_no_list_of_processes(tmp_path: Path) -> None:
    script = tmp_path / "started.py"
    script.write_text(STARTED)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.own.flag False\nspark.of.defaults kept")

    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={**os.environ, "SPARK_CONF_DIR": str(tmp_path / "conf")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
