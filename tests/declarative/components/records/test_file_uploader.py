from pathlib import Path

import pytest

from cdk.base.errors import FatalError
from cdk.base.values import Json
from cdk.declarative.components import register
from cdk.declarative.components.records.file_uploader import FileUploader, safe_parts, staging_folder
from cdk.declarative.components.streams.retrievers import SimpleRetriever
from cdk.declarative.model.context import BuildContext, Runtime
from cdk.declarative.model.stream_plug_points import StreamParts
from cdk.declarative.syntax.validation import validated
from cdk.state.slice import Slice
from cdk.streams.page import Page
from cdk.testing import MockApi

register()
URL = "https://api.test"


def files(api: MockApi, folder: Path, **fields: Json) -> list[Json]:
    """The records of one slice, each with its file."""
    ctx = BuildContext({}, Runtime(transport=api, staging=folder), "documents")
    retriever = validated(
        SimpleRetriever,
        {
            "requester": {"type": "HttpRequester", "url": f"{URL}/documents"},
            "record_selector": {"extractor": {"type": "DpathExtractor", "field_path": []}},
        },
    )
    uploader = validated(
        FileUploader,
        {
            "requester": {"type": "HttpRequester", "url": f"{URL}{{{{ download_target }}}}"},
            "download_target_extractor": {"type": "DpathExtractor", "field_path": ["link"]},
            **fields,
        },
    )
    reader = uploader.uploading_reader(ctx, retriever.build(ctx, StreamParts()))
    records: list[Json] = []
    for item in reader.read(Slice()):
        records.extend(item.records if isinstance(item, Page) else [item])
    return records


def documents(*records: dict[str, Json]) -> MockApi:
    api = MockApi()
    api.get("/documents").returns(json=list(records))
    api.get("/file/*").returns(body=b"hello")
    return api


def test_each_record_gets_its_file_and_says_where_it_lies(tmp_path: Path) -> None:
    api = documents({"id": 1, "link": "/file/1"})

    [record] = files(api, tmp_path, filename_extractor="{{ record.id }}/letter.txt/")

    path = tmp_path / "documents" / "1" / "letter.txt"
    assert record["file_reference"] == {
        "staging_file_url": str(path),
        "source_file_relative_path": "documents/1/letter.txt",
        "file_size_bytes": 5,
    }
    assert path.read_bytes() == b"hello"
    assert api.requests[-1].stream


def test_a_repeated_read_puts_a_file_without_a_name_in_the_same_place(tmp_path: Path) -> None:
    first, second = (files(documents({"id": 1, "link": "/file/1"}), tmp_path) for _ in range(2))

    assert first == second
    assert len(list((tmp_path / "documents").iterdir())) == 1


def test_a_record_without_a_target_has_no_file(tmp_path: Path) -> None:
    assert files(documents({"id": 1}), tmp_path) == [{"id": 1}]


@pytest.mark.parametrize("link", ["", [""], [None], []])
def test_a_record_with_an_empty_target_has_no_file(tmp_path: Path, link: Json) -> None:
    api = documents({"id": 1, "link": link})

    assert files(api, tmp_path) == [{"id": 1, "link": link}]
    assert len(api.requests) == 1


def test_records_of_the_same_file_name_have_a_file_each(tmp_path: Path) -> None:
    def read() -> list[Json]:
        records = [{"id": n, "link": f"/text/{n}"} for n in (1, 2, 2)]
        api = documents(*records)
        api.get("/text/1").returns(body=b"first")
        api.get("/text/2").returns(body=b"the second")
        return files(api, tmp_path, filename_extractor="letter.txt")

    first, second, again = read()

    assert first["file_reference"]["source_file_relative_path"] == "documents/letter.txt"
    assert second["file_reference"]["source_file_relative_path"].endswith(".txt")
    assert again == second
    for record, text in ((first, "first"), (second, "the second")):
        reference = record["file_reference"]
        assert Path(reference["staging_file_url"]).read_text() == text
        assert reference["file_size_bytes"] == len(text)
    assert read() == [first, second, again]
    assert len(list((tmp_path / "documents").iterdir())) == 2


def test_what_is_no_text_inside_an_answer_is_written_as_json(tmp_path: Path) -> None:
    api = documents({"id": 1, "link": "/text"})
    api.get("/text").returns(json={"content": {"a": "ä", "b": [True, None]}})

    content = {"type": "DpathExtractor", "field_path": ["content"]}
    [record] = files(api, tmp_path, file_extractor=content)

    written = Path(record["file_reference"]["staging_file_url"]).read_text(encoding="utf-8")
    assert written == '{"a":"ä","b":[true,null]}'


def test_the_text_of_a_file_may_lie_inside_an_answer(tmp_path: Path) -> None:
    api = documents({"id": 1, "link": "/text"})
    api.get("/text").returns(json={"content": "näher"})

    content = {"type": "DpathExtractor", "field_path": ["content"]}
    [record] = files(api, tmp_path, file_extractor=content)

    assert Path(record["file_reference"]["staging_file_url"]).read_text(encoding="utf-8") == "näher"
    assert record["file_reference"]["file_size_bytes"] == 6


@pytest.mark.parametrize(
    "name", ["../../etc/x.txt", "/etc/x.txt", "..\\..\\etc\\x.txt", "./../ .. /etc/x.txt", "etc//x.txt\0"]
)
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    [record] = files(documents({"name": name, "link": "/file/1"}), tmp_path, filename_extractor="{{ record.name }}")

    assert record["file_reference"]["source_file_relative_path"] == "documents/etc/x.txt"
    assert (tmp_path / "documents/etc/x.txt").exists()


def test_a_link_that_leads_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    staging = tmp_path / "staging"
    (staging / "documents").mkdir(parents=True)
    (staging / "documents" / "etc").symlink_to(tmp_path)

    with pytest.raises(FatalError, match="would be outside"):
        files(documents({"link": "/file/1"}), staging, filename_extractor="etc/x")

    assert not (tmp_path / "x").exists()


def test_a_file_where_a_folder_should_be_is_an_error_that_names_it(tmp_path: Path) -> None:
    api = documents({"name": "a", "link": "/file/1"}, {"name": "a/b", "link": "/file/2"})

    with pytest.raises(FatalError, match="'documents/a/b' cannot be written"):
        files(api, tmp_path, filename_extractor="{{ record.name }}")


def test_a_name_that_is_too_long_keeps_its_extension() -> None:
    [part] = safe_parts("ä" * 300 + ".pdf")

    assert part.endswith("ä.pdf")
    assert len(part.encode()) <= 200


def test_the_folder_shared_with_the_destination_is_used_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRBYTE_STAGING_DIRECTORY", str(tmp_path))
    assert staging_folder() == tmp_path

    monkeypatch.setenv("AIRBYTE_STAGING_DIRECTORY", str(tmp_path / "none"))
    assert staging_folder().name == "airbyte-file-transfer"
