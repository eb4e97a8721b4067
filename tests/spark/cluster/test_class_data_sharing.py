import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cdk.spark.cluster import session
from cdk.spark.cluster.class_data_sharing import archive_options
from cdk.spark.cluster.java_home import java_home
from tests.spark.class_archive import quick_java
from tests.spark.local_cluster import waited

HEADER = b"\xdd\xa2\x0b\xf0"
DUMP = """#!/bin/sh
[ "$1" = -Xshare:dump ] || exit 1
for option; do case "$option" in -XX:SharedArchiveFile=*) echo base >> "${option#*=}";; esac; done
"""


def fake_java(home: Path, *, program: str | None = None) -> Path:
    """The folder of a Java that has an archive of its own classes, or is the text of a program and has none."""
    (home / "lib" / "server").mkdir(parents=True)
    (home / "lib" / "modules").touch()
    if program is None:
        (home / "lib" / "server" / "classes.jsa").touch()
    else:
        (home / "bin").mkdir()
        (home / "bin" / "java").write_text(program)
        (home / "bin" / "java").chmod(0o755)
    return home


@pytest.fixture
def java(tmp_path: Path) -> Path:
    return fake_java(tmp_path / "java")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A folder that is not there yet."""
    return tmp_path / "a cache"


def named(options: str, name: str) -> Path:
    """The one file that an option of Java names."""
    [file] = [option.partition("=")[2] for option in shlex.split(options) if option.startswith(f"-XX:{name}=")]
    return Path(file)


def asked_for(java: Path, cache: Path) -> Path:
    """The file that a Java is to write, on a machine that was seen before."""
    archive_options(java, cache)
    return named(archive_options(java, cache), "ArchiveClassesAtExit")


def with_archive(java: Path, cache: Path) -> Path:
    """The archive that is used, once Java has written it."""
    asked_for(java, cache).write_bytes(HEADER)
    return named(archive_options(java, cache), "SharedArchiveFile")


def grow_old(file: Path, age: timedelta) -> None:
    moment = time.time() - age.total_seconds()
    os.utime(file, (moment, moment))


def names(cache: Path) -> list[str]:
    return sorted(file.name for file in (cache / "classes").iterdir())


def test_java_is_told_of_an_archive_that_is_there(tmp_path: Path) -> None:
    archive = tmp_path / "a folder" / "spark.jsa"
    without = quick_java(archive)
    archive.parent.mkdir()
    archive.touch()

    assert "SharedArchiveFile" not in without
    assert quick_java(archive) == f'{without} "-XX:SharedArchiveFile={archive}"'


def test_the_first_sync_of_a_machine_leaves_a_marker_alone(java: Path, cache: Path) -> None:
    options = archive_options(java, cache)
    [marker] = (cache / "classes").iterdir()

    assert options == ""
    assert marker.suffix == ".seen"


def test_the_second_has_an_archive_written_under_a_name_of_its_process(java: Path, cache: Path) -> None:
    archive_options(java, cache)
    [marker] = (cache / "classes").iterdir()
    options = archive_options(java, cache)

    assert named(options, "ArchiveClassesAtExit") == marker.with_suffix(f".{os.getpid()}.new")
    assert "SharedArchiveFile" not in options
    assert names(cache) == [marker.name]


def test_what_java_wrote_becomes_the_archive_of_later_syncs(java: Path, cache: Path) -> None:
    written = asked_for(java, cache)
    written.write_bytes(HEADER + b"classes")
    options = archive_options(java, cache)
    archive = named(options, "SharedArchiveFile")

    assert archive.name == f"{written.name.partition('.')[0]}.jsa"
    assert archive.read_bytes() == HEADER + b"classes"
    assert "ArchiveClassesAtExit" not in options
    assert not written.exists()
    assert archive_options(java, cache) == options


UNFINISHED = [b"", b"\0\0", bytes(4) + b"classes"]


@pytest.mark.parametrize("content", UNFINISHED, ids=["empty", "begun", "without its header"])
def test_a_file_that_is_being_written_is_left_alone_and_no_second_one_begun(
    java: Path, cache: Path, content: bytes
) -> None:
    written = asked_for(java, cache)
    written.write_bytes(content)
    grow_old(written, timedelta(minutes=59))

    assert archive_options(java, cache) == ""
    assert written.read_bytes() == content


def test_a_java_that_never_writes_one_is_asked_three_times(java: Path, cache: Path) -> None:
    asked = [archive_options(java, cache) for _ in range(6)]

    assert [bool(options) for options in asked] == [False, True, True, True, False, False]


@pytest.mark.parametrize("variable", ["SPARK_CONF_DIR", "HADOOP_CONF_DIR", "SPARK_DIST_CLASSPATH"])
def test_another_class_path_has_its_own_archive(
    java: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    archive = with_archive(java, cache)
    monkeypatch.setenv(variable, "/etc/somewhere")

    assert archive_options(java, cache) == ""
    assert with_archive(java, cache) != archive


@pytest.mark.parametrize("content", UNFINISHED, ids=["empty", "begun", "without its header"])
def test_a_file_whose_writer_was_killed_goes_after_an_hour(java: Path, cache: Path, content: bytes) -> None:
    written = asked_for(java, cache)
    written.write_bytes(content)
    grow_old(written, timedelta(minutes=61))

    assert named(archive_options(java, cache), "ArchiveClassesAtExit") == written
    assert not written.exists()


def test_a_file_that_was_complete_long_ago_is_taken(java: Path, cache: Path) -> None:
    written = asked_for(java, cache)
    written.write_bytes(HEADER)
    grow_old(written, timedelta(days=30))

    assert named(archive_options(java, cache), "SharedArchiveFile").read_bytes() == HEADER


def test_a_java_elsewhere_has_its_own_archive(java: Path, cache: Path, tmp_path: Path) -> None:
    archive = with_archive(java, cache)
    other = fake_java(tmp_path / "other")
    shutil.copystat(java / "lib" / "modules", other / "lib" / "modules")

    assert archive_options(other, cache) == ""
    assert with_archive(other, cache) != archive == named(archive_options(java, cache), "SharedArchiveFile")


def test_a_java_that_was_updated_has_a_new_archive(java: Path, cache: Path) -> None:
    archive = with_archive(java, cache)
    grow_old(java / "lib" / "modules", timedelta(days=1))

    assert archive_options(java, cache) == ""
    assert with_archive(java, cache) != archive


def test_an_archive_that_is_used_stays(java: Path, cache: Path, tmp_path: Path) -> None:
    archive = with_archive(java, cache)
    grow_old(archive, timedelta(days=61))
    archive_options(java, cache)
    asked_for(fake_java(tmp_path / "other"), cache)

    assert archive.exists()
    assert time.time() - archive.stat().st_mtime < 3600


def test_what_nobody_used_for_two_months_goes_when_another_archive_is_asked_for(
    java: Path, cache: Path, tmp_path: Path
) -> None:
    archive, newer = with_archive(java, cache), with_archive(fake_java(tmp_path / "newer"), cache)
    marker = archive.with_suffix(".seen")
    for file in (archive, marker):
        grow_old(file, timedelta(days=61))
    grow_old(newer, timedelta(days=59))

    other = fake_java(tmp_path / "other")
    archive_options(other, cache)
    kept = archive.exists()
    archive_options(other, cache)

    assert kept
    assert not archive.exists()
    assert not marker.exists()
    assert newer.exists()


@pytest.mark.parametrize("where", [".", "classes"])
def test_a_cache_that_cannot_be_written_is_done_without(java: Path, cache: Path, where: str) -> None:
    (cache / where).parent.mkdir(parents=True, exist_ok=True)
    (cache / where).touch()

    assert [archive_options(java, cache) for _ in range(3)] == ["", "", ""]


def test_a_java_without_an_archive_of_its_own_classes_makes_one_first(cache: Path, tmp_path: Path) -> None:
    java = fake_java(tmp_path / "a java", program=DUMP)
    archive_options(java, cache)
    before = names(cache)
    options = archive_options(java, cache)
    base = named(options, "SharedArchiveFile")

    assert [name for name in before if name.endswith(".jsa")] == []
    assert base.read_text() == "base\n"
    assert names(cache) == sorted([*before, base.name])

    (java / "bin" / "java").unlink()

    assert archive_options(java, cache) == options, "it is there already"

    named(options, "ArchiveClassesAtExit").write_bytes(HEADER)
    archive = named(archive_options(java, cache), "SharedArchiveFile")

    assert archive != base
    assert archive.read_bytes() == HEADER


def test_an_archive_stays_with_the_one_that_it_is_on_top_of(cache: Path, tmp_path: Path) -> None:
    java = fake_java(tmp_path / "java", program=DUMP)
    archive = with_archive(java, cache)
    base = archive.with_suffix(".java.jsa")
    grow_old(base, timedelta(days=61))
    archive_options(java, cache)

    assert time.time() - base.stat().st_mtime < 3600

    base.unlink()

    assert named(archive_options(java, cache), "ArchiveClassesAtExit").suffix == ".new"
    assert base.exists()


@pytest.mark.parametrize("program", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\n", "#!/no/such/program\n"])
def test_a_java_that_makes_no_archive_is_started_without(cache: Path, tmp_path: Path, program: str) -> None:
    java = fake_java(tmp_path / "java", program=program)

    assert [archive_options(java, cache) for _ in range(3)] == ["", "", ""]


@pytest.mark.parametrize("variable", ["JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"])
@pytest.mark.parametrize("option", ["SharedArchiveFile", "ArchiveClassesAtExit"])
def test_an_archive_of_the_users_own_is_left_alone(
    java: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, variable: str, option: str
) -> None:
    for name in ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    session._archive_options(java)

    assert session._archive_options(java) != ""

    monkeypatch.setenv(variable, f"-Xmx1g -XX:{option}=/their/own.jsa")

    assert session._archive_options(java) == ""


# The JVM of a session, before it is one: what Spark itself takes would be archived for half a minute.
SYNC = """
import json
from pathlib import Path
from pyspark import SparkContext
from cdk.spark.cluster import session
from cdk.spark.cluster.jvm_launch import JvmLaunch

JvmLaunch().run({**session._own_settings("local[1,4]"), "spark.app.name": "classes"}, None, Path("spark.log"))
answer = SparkContext._jvm.Math.max(44, 45)
java = Path("/proc", str(SparkContext._gateway.proc.pid))
command = (java / "cmdline").read_text().split("\\0")
mapped = [line.split(None, 5)[-1] for line in (java / "maps").read_text().splitlines()]
print(json.dumps({"answer": answer, "command": command, "mapped": mapped}))
"""


@pytest.mark.spark
def test_java_writes_the_archive_after_a_sync_and_maps_it_in_the_next(cache: Path, tmp_path: Path) -> None:
    own = {name: value for name, value in os.environ.items() if name not in {"JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"}}
    environ = {**own, "XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(Path(__file__).parents[3])}
    archive_options(java_home(environ), cache / "spark-cdk")
    classes = cache / "spark-cdk" / "classes"
    [marker] = classes.glob("*.seen")
    archive = marker.with_suffix(".jsa")

    def sync() -> Any:
        """What such a program says, all of it: the JVM, which lives on, has no part in its output."""
        program = [sys.executable, "-c", SYNC]
        return json.loads(subprocess.run(program, env=environ, cwd=tmp_path, stdout=subprocess.PIPE, check=True).stdout)

    def written() -> bool:
        for name in classes.glob("*.new"):
            with name.open("rb") as file:
                if any(file.read(4)):
                    return True
        return False

    first = sync()
    assert not written()
    waited(written, lambda: f"found only {names(cache / 'spark-cdk')}", patience=120)
    second = sync()

    assert first["answer"] == second["answer"] == 45
    assert str(archive) not in first["mapped"]
    assert str(archive) in second["mapped"]
    assert f"-XX:SharedArchiveFile={archive}" in second["command"]
    assert [option for option in second["command"] if "ArchiveClassesAtExit" in option] == []
