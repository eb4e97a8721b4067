"""Class data sharing: an archive of Spark's classes that Java loads faster (JEP 310, JEP 350), in the user's cache.

A JVM that starts Spark reads ten thousand classes from its jars and verifies each; from an archive it maps them into
memory. Java writes the archive when it exits, after the process that started it, so no process waits for that. An
archive takes 120 to 150 MB, so it is written by a machine's second sync, not by the first, which may be the only one of
a container. Java itself checks that an archive matches, and otherwise reads the jars as usual.
"""

import hashlib
import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pyspark

_QUIET = "-Xshare:auto -Xlog:disable -Xlog:all=error:stderr"

_MAX_ATTEMPTS = 3
"""How often the kit requests an archive: Java writes none if a folder on the class path has files, or it is killed."""

_CLASS_PATH = ("SPARK_HOME", "SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
"""Variables that tell Spark's launcher where classes are: Java does not use an archive of other classes."""

_ABANDONED = 3600.0  # seconds; writing takes at most ten
_UNUSED = 60 * 86_400.0  # seconds; such an archive belongs to a Java or Spark that was removed


def archive_options(java: Path, cache: Path) -> str:
    """Return options for a JVM that will run Spark: to use the archive, to write one, or empty.

    java: the home of the Java. cache: the folder for the archives; if it is not writable, returns no options.
    """
    folder = cache / "classes"
    archive = folder / f"{_digest(java)}.jsa"
    base = _base(java, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writing = _take_written(archive)
        if archive.exists() and (base is None or base.exists()):
            for used in (archive, base):
                if used is not None:
                    used.touch()
            return f'{_QUIET} "-XX:SharedArchiveFile={archive}"'
        counter = archive.with_suffix(".seen")
        attempts = len(counter.read_text()) if counter.exists() else 0
        if writing or attempts > _MAX_ATTEMPTS:
            return ""
        counter.write_text("." * (attempts + 1))
        if not attempts:
            return ""
        _forget_unused(folder)
        new = archive.with_suffix(f".{os.getpid()}.new")
        return f'{_QUIET} {_on_top_of(java, base)}"-XX:ArchiveClassesAtExit={new}"'
    except (OSError, subprocess.SubprocessError):
        return ""


def _digest(java: Path) -> str:
    """Return a digest of what an archive depends on: the files of Java and Spark, and other places of classes."""
    jars = Path(pyspark.__file__).parent / "jars"
    parts = [str(java), str(jars), pyspark.__version__, *(os.environ.get(name, "") for name in _CLASS_PATH)]
    for file in (java / "lib" / "modules", jars):
        with suppress(OSError):
            parts.append(str(file.stat().st_mtime_ns))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _take_written(archive: Path) -> bool:
    """Rename a file that a JVM has finished writing to `archive`; return whether a JVM is still writing one."""
    writing = False
    for written in archive.parent.glob(f"{archive.stem}.*.new"):
        with written.open("rb") as file:
            # Java writes the header last; until then it is zeros.
            complete = any(file.read(4))
        if complete:
            written.replace(archive)
        elif time.time() - written.stat().st_mtime > _ABANDONED:
            written.unlink(missing_ok=True)
        else:
            writing = True
    return writing


def _forget_unused(folder: Path) -> None:
    for file in folder.iterdir():
        if time.time() - file.stat().st_mtime > _UNUSED:
            file.unlink(missing_ok=True)


def _base(java: Path, folder: Path) -> Path | None:
    """Return the archive of Java's own classes, the base of a program's archive; None if the Java includes one."""
    return None if (java / "lib" / "server" / "classes.jsa").exists() else folder / f"{_digest(java)}.java.jsa"


def _on_top_of(java: Path, base: Path | None) -> str:
    if base is None:
        return ""
    if not base.exists():
        draft = base.with_suffix(f".{os.getpid()}")
        command = [str(java / "bin" / "java"), "-Xshare:dump", f"-XX:SharedArchiveFile={draft}", "-Xlog:disable"]
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - the user's own Java
        draft.replace(base)
    return f'"-XX:SharedArchiveFile={base}" '
