"""Spark's classes as Java loads them fastest: `python -m tests.spark.class_archive FILE` makes the archive once.

A JVM that starts Spark reads fourteen thousand classes from its jars and verifies each, which is half of the processor
time of a short sync; with an archive of class data it maps them from one file. The tests start some thirty such JVMs.
Java checks that an archive fits, and reads the jars as ever where none is, or where it is of another Java or Spark.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pyspark import SparkContext

from cdk.spark.cluster.java_home import java_home
from cdk.spark.cluster.session import open_session
from cdk.sync.settings.pipeline_file import SparkOptions

ARCHIVE = Path(sys.prefix) / "spark.jsa"
OPTIONS = "JDK_JAVA_OPTIONS"
"""The environment variable that every Java program of a process tree obeys."""

# For programs that end soon: little compilation, one thread that collects garbage. What Java has to say about archives
# it would say on standard output, in the middle of what a program prints.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -Xlog:disable -Xlog:all=error:stderr"


def quick_java(archive: Path = ARCHIVE) -> str:
    """Options of a Java that starts soon: with the archive, if there is one."""
    return f'{_QUICK} "-XX:SharedArchiveFile={archive}"' if archive.exists() else _QUICK


def make_archive(archive: Path) -> bool:
    """Start Spark, run a job and have Java archive the classes that this took. False: this Java makes no archives."""
    # Not every Java comes with an archive of its own classes, on top of which that of a program is.
    base = archive.with_name(f"java-of-{archive.name}")
    java = java_home(os.environ) / "bin" / "java"
    subprocess.run([java, "-Xshare:dump", f"-XX:SharedArchiveFile={base}", "-Xlog:disable"], check=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder) / archive.name
        os.environ[OPTIONS] = f'{_QUICK} "-XX:SharedArchiveFile={base}" "-XX:ArchiveClassesAtExit={made}"'
        session = open_session("classes", SparkOptions(master="local[2,4]"), Path(folder) / "spark.log")
        session.range(0, 2, 1, 2).mapInArrow(lambda batches: batches, "id long").collect()
        session.stop()
        gateway = SparkContext._gateway
        assert gateway is not None
        # The JVM writes the archive when it ends by itself, which it does when its input ends.
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
        if made.exists():
            made.replace(archive)
    return archive.exists()


if __name__ == "__main__":
    if not make_archive(Path(sys.argv[1]).absolute()):
        print("this Java makes no archive of Spark's classes: the tests start Spark without", file=sys.stderr)
