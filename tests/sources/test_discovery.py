import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

import pytest

from cdk import ConfigError, Source, Stream
from cdk.sources.discovery import find_source, source_of
from cdk.testing import MockApi, read
from tests import samples
from tests.cli.conftest import USERS


@pytest.fixture(autouse=True)
def _imports_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))


def test_a_file_of_streams_is_a_source_named_after_it(tmp_path: Path) -> None:
    (tmp_path / "people.py").write_text(USERS)

    source = find_source(str(tmp_path / "people.py"))

    assert source.name == "people"
    assert [stream.name for stream in source.streams({})] == ["users"]


def test_a_file_may_import_its_neighbours_and_bear_the_name_of_a_module(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text(USERS)
    (tmp_path / "json.py").write_text("from neighbour import Users\nclass Own(Users):\n    pass\n")

    source = find_source(str(tmp_path / "json.py"))

    assert [stream.name for stream in source.streams({})] == ["own"]


def test_a_dotted_module_in_this_directory_is_found(tmp_path: Path) -> None:
    (tmp_path / "made_here").mkdir()
    (tmp_path / "made_here" / "api.py").write_text(USERS)

    assert find_source("made_here.api").name == "made_here.api"


@pytest.mark.parametrize(
    "source", ["RestSource('https://a.test', resource('a', '/a'))", "type('Api', (Source,), {})()"]
)
def test_a_source_without_a_name_is_called_as_its_file_and_one_with_a_name_by_that(tmp_path: Path, source: str) -> None:
    text = "from cdk import Source\nfrom cdk.rest import RestSource, resource\n"
    (tmp_path / "one_api.py").write_text(f"{text}source = {source}\n")
    (tmp_path / "two_api.py").write_text(f"{text}source = {source}\nsource.name = 'own'\n")

    assert [find_source(f"{name}_api.py").name for name in ("one", "two")] == ["one_api", "own"]


def test_streams_keep_the_order_they_are_written_in_and_abstract_ones_are_left_out() -> None:
    source = source_of(samples, "samples")

    names = [type(stream).__name__ for stream in source.streams({})]
    assert names[:3] == ["Plain", "Users", "Notes"]
    assert "Fixed" not in names


class One(Source):
    pass


class Two(Source):
    pass


def module(**members: object) -> ModuleType:
    made = ModuleType(__name__)
    vars(made).update(members)
    return made


def test_the_one_source_of_a_module_is_taken_and_of_several_the_one_called_source() -> None:
    two = Two()

    assert isinstance(source_of(module(One=One), "m"), One)
    assert source_of(module(One=One, Two=Two, source=two), "m") is two
    assert isinstance(source_of(One, "m"), One)
    assert source_of(two, "m") is two


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (module(One=One, Two=Two), "found the sources One, Two, expected one"),
        (module(Stream=Stream), "found neither a Source nor a Stream in the module"),
        (5, "found a int, expected a Source"),
    ],
)
def test_a_module_without_one_source_is_refused(found: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        source_of(found, "m")


def plug(tmp_path: Path, code: str, point: str = "elsewhere") -> None:
    """Install a package with a module of this code, and an entry point `my-plug`."""
    (tmp_path / "elsewhere.py").write_text(code)
    info = tmp_path / "plug-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plug\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[cdk.connectors]\nmy-plug = {point}\n")
    sys.path.insert(0, str(tmp_path))
    assert "my-plug" in entry_points(group="cdk.connectors").names


def test_an_installed_entry_point_is_found(tmp_path: Path) -> None:
    plug(tmp_path, USERS)

    assert find_source("my-plug").name == "my-plug"


MANIFEST = """
version: 6.0.0
type: DeclarativeSource
check: {type: CheckStream, stream_names: [users]}
streams:
  - type: DeclarativeStream
    name: users
    retriever:
      type: SimpleRetriever
      requester: {type: HttpRequester, url: "https://api.test/users"}
      record_selector:
        type: RecordSelector
        extractor: {type: CustomRecordExtractor, class_name: components.Users}
"""
COMPONENTS = """
from airbyte_cdk.sources.declarative.extractors import RecordExtractor

class Users(RecordExtractor):
    def extract_records(self, response):
        yield {"id": response.json()["number"]}
"""


@pytest.mark.parametrize("point", ["elsewhere", "elsewhere:source"])
def test_an_installed_package_may_consist_of_a_manifest_and_its_code(tmp_path: Path, point: str) -> None:
    plug(tmp_path, "from pathlib import Path\nsource = Path(__file__).with_name('manifest.yaml')\n", point)
    (tmp_path / "manifest.yaml").write_text(MANIFEST)
    (tmp_path / "components.py").write_text(COMPONENTS)
    api = MockApi()
    api.get("/users").returns(json={"number": 7})

    source = find_source("my-plug")

    assert (source.name, read(source, "users", transport=api).records) == ("my-plug", [{"id": 7}])


def test_an_entry_point_that_does_not_run_says_which_and_what_happened(tmp_path: Path) -> None:
    plug(tmp_path, "import not_installed\n")

    with pytest.raises(ConfigError, match=r"my-plug \(elsewhere\): cannot be imported: ModuleNotFoundError"):
        find_source("my-plug")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("kitno", "found no connector 'kitno'; did you mean 'kinto'"),
        ("absent.py", "absent.py: expected a Python file, found none"),
        ("no.such.module", "found no connector 'no.such.module'"),
        ("..", "found no connector"),
    ],
)
def test_an_unknown_connector_is_answered_with_what_there_is(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        find_source(name)


def test_a_file_that_does_not_run_says_what_happened(tmp_path: Path) -> None:
    (tmp_path / "torn.py").write_text("def (:\n")

    with pytest.raises(ConfigError, match=r"torn\.py: cannot be imported: SyntaxError"):
        find_source(str(tmp_path / "torn.py"))


def test_a_file_that_fails_as_it_is_imported_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "slip.py").write_text("from cdk.rest import PageNumber\n\npages = PageNumber(sze=20)\n")

    with pytest.raises(
        ConfigError, match=r"slip\.py: cannot be imported: TypeError: .*sze.* \(.*slip\.py:3, in <module>\)"
    ):
        find_source(str(tmp_path / "slip.py"))


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        ("class Users(PagedStream):\n    primary_ky = 'id'\n", "did you mean 'primary_key'?", r"3, in <module>"),
        (
            "source = RestSource(\n    'https://a.com',\n    resource('users', '/{project.id}'),\n)\n",
            r"\{project.id\}: there is no such resource",
            r"3, in <module>",
        ),
        (
            "class Users(PagedStream):\n    def read_page(self, slice):\n        pass\n",
            r"cannot be called as the kit calls it .*`def read_page\(self, slice, token\)`",
            "4",
        ),
    ],
)
def test_a_slip_that_the_kit_finds_while_a_file_is_read_has_its_line(
    tmp_path: Path, text: str, words: str, line: str
) -> None:
    file = tmp_path / "shop.py"
    file.write_text(f"from cdk import PagedStream\nfrom cdk.rest import RestSource, resource\n{text}")

    with pytest.raises(ConfigError, match=rf"shop\.py: .*{words}.* \({file}:{line}\)$"):
        find_source("shop.py")


def test_what_a_connector_says_of_itself_as_it_is_imported_is_the_error(tmp_path: Path) -> None:
    (tmp_path / "slip.py").write_text("from cdk.rest import RestSource\nsource = RestSource('{conf.url}')\n")

    with pytest.raises(ConfigError, match=r"slip\.py: url: found \{conf\.url\}"):
        find_source(str(tmp_path / "slip.py"))


FAMILY = """
from cdk import Page, PagedStream

class Base(PagedStream):
    def read_page(self, slice, token):
        return Page([{"id": 1}], None)

class Users(Base):
    pass

class Orders(Base):
    pass
"""


def test_a_class_that_others_derive_from_is_no_stream(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "family.py").write_text(FAMILY)

    assert [stream.name for stream in find_source(str(tmp_path / "family.py")).streams({})] == ["users", "orders"]
    assert caplog.messages == []


def test_a_stream_that_others_derive_from_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    orders = FAMILY.replace("class Users(Base):\n    pass", "class Users(Base):\n    schema = {'type': 'object'}")
    (tmp_path / "family.py").write_text(f"{orders}\nclass Staff(Users):\n    pass\n")

    assert [stream.name for stream in find_source(str(tmp_path / "family.py")).streams({})] == ["orders", "staff"]
    assert "family: Users has a schema, but is not read, because Staff derives from it" in caplog.text


@pytest.mark.parametrize("more", ["", FAMILY])
def test_a_slip_in_the_name_of_what_a_stream_writes_is_named(tmp_path: Path, more: str) -> None:
    slip = "from cdk import PagedStream\n\nclass Notes(PagedStream):\n    def fetch_page(self, slice, token): ...\n"
    (tmp_path / "slip.py").write_text(slip + more)

    with pytest.raises(ConfigError, match="the stream Notes does not implement `read_page`, but has 'fetch_page'; did"):
        find_source(str(tmp_path / "slip.py"))


def test_a_stream_that_writes_nothing_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("from cdk import Stream\n\nclass Notes(Stream):\n    pass\n")

    with pytest.raises(ConfigError, match=r"the stream Notes does not implement `read_records`$"):
        find_source(str(tmp_path / "empty.py"))


def test_a_stream_of_a_source_that_writes_nothing_is_named(tmp_path: Path) -> None:
    lines = ["from cdk import Source, Stream", "class Notes(Stream):", "    pass", "class Pad(Source):"]
    (tmp_path / "pad.py").write_text("\n".join([*lines, "    stream_classes = [Notes]"]))

    with pytest.raises(ConfigError, match=r"the stream Notes does not implement `read_records`$"):
        find_source(str(tmp_path / "pad.py"))


def test_a_source_that_lists_no_classes_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "pad.py").write_text(
        f"{USERS}\nfrom cdk import Source\nclass Pad(Source):\n    stream_classes = Users\n"
    )

    with pytest.raises(
        ConfigError, match=r"Pad\.stream_classes: found the class Users, expected a list of classes.*:\d+"
    ):
        find_source(str(tmp_path / "pad.py"))
