import hashlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cdk.base.errors import ManifestError
from cdk.base.values import Json
from cdk.compat.loading.custom_module import AIRBYTE_PACKAGES
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.context import Runtime
from cdk.declarative.source import ManifestSource
from cdk.sources.manifests import AirbyteCode
from cdk.testing import MockApi, read
from tests.compat.sources import manifest, source

CODE = """
from airbyte_cdk.sources.declarative.extractors.record_extractor import RecordExtractor

class One(RecordExtractor):
    def extract_records(self, response):
        return [{"id": 1}]
"""


def extracting(class_name: str) -> Json:
    return manifest(record_selector={"extractor": {"type": "CustomRecordExtractor", "class_name": class_name}})


def answering() -> MockApi:
    api = MockApi()
    api.get("/items").returns(json={})
    return api


def test_code_that_nobody_trusts_does_not_run(tmp_path: Path) -> None:
    code = f"(__import__('pathlib').Path({str(tmp_path)!r}) / 'ran').touch()\n{CODE}"

    run = read(source(tmp_path, code, extracting("components.One"), answering(), trusted=False))

    assert isinstance(run.error, ManifestError)
    for part in ("CustomRecordExtractor", "components.One", "--allow-custom-code"):
        assert part in str(run.error)
    assert not (tmp_path / "ran").exists()


def test_a_manifest_with_custom_components_can_be_looked_at_without_trust(tmp_path: Path) -> None:
    assert source(tmp_path, CODE, extracting("components.One"), answering(), trusted=False).config_schema is not None


def test_the_environment_of_existing_platforms_trusts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRBYTE_ENABLE_UNSAFE_CODE", "true")

    assert read(source(tmp_path, CODE, extracting("components.One"), answering(), trusted=False)).records == [{"id": 1}]


@pytest.mark.parametrize(
    "class_name", ["components.One", "source_x.components.One", "source_declarative_manifest.components.One"]
)
def test_the_file_beside_the_manifest_serves_for_the_usual_names(tmp_path: Path, class_name: str) -> None:
    assert read(source(tmp_path, CODE, extracting(class_name), answering())).records == [{"id": 1}]


def test_a_file_may_be_named_instead(tmp_path: Path) -> None:
    elsewhere = tmp_path / "mine.py"
    elsewhere.write_text(CODE.replace('"id": 1', '"id": 2'))
    runtime = Runtime(transport=answering(), folder=tmp_path, custom=AirbyteCode(elsewhere))

    assert read(ManifestSource(Manifest(extracting("source_x.components.One")), runtime)).records == [{"id": 2}]


def test_other_modules_beside_the_manifest_are_found_and_may_import_each_other(tmp_path: Path) -> None:
    (tmp_path / "helper_of_this_test.py").write_text("ID = 3\n")
    (tmp_path / "parsing.py").write_text(f"from helper_of_this_test import ID{CODE.replace('1', 'ID')}")

    run = read(source(tmp_path, "", extracting("source_x.parsing.One"), answering()))

    assert run.error is None
    assert run.records == [{"id": 3}]


@pytest.mark.parametrize("package", [False, True])
def test_code_may_import_its_neighbours_relatively(tmp_path: Path, package: bool) -> None:  # noqa: FBT001
    (tmp_path / "inner").mkdir()
    (tmp_path / "ids.py").write_text("ID = 3\n")
    more = "from ..ids import ID as THREE\nfrom . import last\nID = THREE + last.ID\n"
    (tmp_path / "inner" / "more.py").write_text(more)
    (tmp_path / "inner" / "last.py").write_text("ID = 1\n")
    if package:
        (tmp_path / "__init__.py").write_text("from .source import run\nraise RuntimeError('started')\n")
    code = f"from .inner.more import ID{CODE.replace('1', 'ID')}"
    (tmp_path / "inner" / "parsing.py").write_text(code.replace(".inner.more", ".more"))

    beside = read(source(tmp_path, code, extracting("source_x.components.One"), answering()))
    below = read(source(tmp_path, code, extracting("source_x.inner.parsing.One"), answering()))

    assert (beside.error, below.error) == (None, None)
    assert beside.records == below.records == [{"id": 4}]


def injected(code: str, **sums: str) -> Json:
    return {"__injected_components_py": code, "__injected_components_py_checksums": sums}


SOURCE = """
from airbyte_cdk.models import ConfiguredAirbyteCatalog
from airbyte_cdk.sources.declarative.exceptions import ReadException
from airbyte_cdk.sources.declarative.yaml_declarative_source import YamlDeclarativeSource
from airbyte_cdk.sources.source import TState

class SourceX(YamlDeclarativeSource):
    def __init__(self, catalog: ConfiguredAirbyteCatalog | None, config: dict | None, state: TState, **kwargs):
        super().__init__(catalog=catalog, config=config, state=state, path_to_yaml="manifest.yaml")
"""


def test_an_installed_package_may_import_its_source_with_its_components(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "installed" / "source_published"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from .parsing import One\nfrom .source import SourceX\n")
    (package / "source.py").write_text(SOURCE)
    (package / "parsing.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(package.parent))

    run = read(source(tmp_path, "", extracting("source_published.One"), answering()))

    assert run.error is None
    assert run.records == [{"id": 1}]


@pytest.mark.parametrize("kind", ["md5", "sha256"])
def test_code_in_the_config_runs_when_its_checksum_fits(tmp_path: Path, kind: str) -> None:
    total = hashlib.new(kind, CODE.encode()).hexdigest()

    run = read(source(tmp_path, "", extracting("components.One"), answering()), config=injected(CODE, **{kind: total}))

    assert run.error is None
    assert run.records == [{"id": 1}]


@pytest.mark.parametrize("sums", [{"md5": "0" * 32}, {"crc": "0"}, {}])
def test_code_in_the_config_without_its_checksum_does_not_run(tmp_path: Path, sums: dict[str, str]) -> None:
    run = read(source(tmp_path, "", extracting("components.One"), answering()), config=injected(CODE, **sums))

    assert isinstance(run.error, ManifestError)
    assert "__injected_components_py" in str(run.error)


@pytest.mark.parametrize(
    ("code", "class_name", "said"),
    [
        ("from airbyte_cdk.sources.file_based import FileBasedSource", "components.One", "custom-components.md"),
        ("from airbyte_cdk.models import Levels", "components.One", "'Levels'"),
        ("import package_nobody_has", "components.One", "install the package"),
        ("raise ModuleNotFoundError(name='isodate')", "components.One", "pip install 'spark-cdk[airbyte]'"),
        ("1 / 0", "components.One", "ZeroDivisionError"),
        (CODE, "components.Ones", "did you mean 'One'"),
        (CODE, "One", "a module and a class"),
    ],
)
def test_code_that_cannot_be_had_is_explained(tmp_path: Path, code: str, class_name: str, said: str) -> None:
    run = read(source(tmp_path, code, extracting(class_name), answering()))

    assert isinstance(run.error, ManifestError)
    assert said in str(run.error)


def test_the_packages_that_an_error_attributes_to_airbytes_images_are_an_extra() -> None:
    extras = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]

    assert {requirement.partition(">")[0] for requirement in extras["airbyte"]} == AIRBYTE_PACKAGES


def test_an_airbyte_cdk_that_was_imported_before_is_left_alone(tmp_path: Path) -> None:
    script = f"""
import sys, types
from pathlib import Path
real = sys.modules["airbyte_cdk"] = types.ModuleType("airbyte_cdk")
from tests.compat.sources import source
from tests.compat.loading.test_custom_module import CODE, answering, extracting
from cdk.testing import read
run = read(source(Path({str(tmp_path)!r}), CODE, extracting("components.One"), answering()))
assert run.records == [{{"id": 1}}], run.error
assert sys.modules["airbyte_cdk"] is real
assert [name for name in sys.modules if name.startswith("airbyte_cdk")] == ["airbyte_cdk"]
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_language_does_not_load_what_only_custom_code_needs() -> None:
    script = """
import sys
from cdk.declarative.components import register
register()
assert not [name for name in sys.modules if name.startswith("cdk.compat")]
"""
    subprocess.run([sys.executable, "-c", script], check=True)
