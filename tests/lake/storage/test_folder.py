import os
import pickle
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake.exceptions import DeltaError

from cdk.base.errors import CdkError, ConfigError, TransientError
from cdk.base.values import JsonObject
from cdk.lake.storage.credentials import for_delta, secrets_of
from cdk.lake.storage.folder import Folder, LocalFolder, as_folder, cache_folder
from cdk.lake.storage.object_store import ObjectStoreFolder, folder_at
from tests.spark.object_store import SECRET, ObjectStore, Trouble, object_store

KEYS = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


@pytest.fixture(params=["disk", "store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    """An empty folder, named like nothing a URL may hold."""
    if request.param == "disk":
        return as_folder(tmp_path / "a b" / "ü")
    server: ObjectStore = request.getfixturevalue("server")
    return folder_at(f"s3://lake/{tmp_path.name}/a b/ü", server.storage, {})


def test_what_is_written_is_read(place: Folder) -> None:
    place.write("1.json", b"one")
    place.write("1.json", b"two")
    place.write("2.json", b"")

    assert (place.read("1.json"), place.read("2.json")) == (b"two", b"")
    assert sorted(place.names()) == ["1.json", "2.json"]


def test_a_file_that_is_written_in_parts_is_told_with_its_size(place: Folder) -> None:
    place.make()
    with place.open("part") as file:
        file.write(b"12345")
        file.write(b"678")
    written = place.make_durable("part")

    assert place.read("part") == b"12345678"
    assert written.size == 8
    assert 1.6e12 < written.modified < 4e12


def test_what_is_not_there_is_told_apart(place: Folder) -> None:
    place.write("there", b"")

    with pytest.raises(FileNotFoundError):
        place.read("gone")
    assert place.has(["there"])
    assert place.has([])
    assert not place.has(["there", "gone"])
    assert not place.join("there").has(["gone"])
    place.write("long", b"12345")
    assert place.sizes(["there", "gone", "long"]) == {"there": 0, "long": 5}
    assert place.join("nowhere").names() == []


def test_names_are_those_of_files_right_in_the_folder(place: Folder) -> None:
    place.join("below").write("deep", b"")
    place.write("here", b"")

    assert place.names() == ["here"]


def test_deleting_takes_what_was_named_and_nothing_else(place: Folder) -> None:
    for name in ("a", "b"):
        place.write(name, b"")
    place.join("below", "deeper").write("c", b"")
    place.delete("a")
    place.delete("a")

    assert place.names() == ["b"]
    assert place.join("below", "deeper").names() == ["c"]
    assert place.has(["b"])


def test_a_place_travels_to_tasks_with_its_options_and_shows_none(place: Folder) -> None:
    place.write("x", b"1")
    copy = pickle.loads(pickle.dumps(place))  # noqa: S301 - our own

    assert copy == place
    assert copy.read("x") == b"1"
    assert SECRET not in repr(place) + str(place)


def test_a_folder_is_inside_those_around_it_and_no_other(place: Folder) -> None:
    assert place.join("a", "b").inside(place)
    assert place.join("a", "b").inside(place.join("a"))
    assert not place.inside(place)
    assert not place.join("ab").inside(place.join("a"))


def test_a_folder_has_the_one_around_it_for_its_parent(place: Folder) -> None:
    assert place.join("a", "b").parent == place.join("a")


def test_a_file_is_put_on_a_disk_in_one_step(tmp_path: Path) -> None:
    as_folder(tmp_path).write("state.json", b"x")

    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("s3://lake", "s3://lake"),
        ("s3://lake/raw/", "s3://lake/raw"),
        ("s3a://lake/a/b", "s3a://lake/a/b"),
        ("gs://lake/raw", "gs://lake/raw"),
        ("abfss://box@acme.dfs.core.windows.net/raw", "abfss://box@acme.dfs.core.windows.net/raw"),
        ("file:///srv/my%20lake", "/srv/my lake"),
        ("file:/srv/my%20lake", "/srv/my lake"),
        ("file://localhost/srv/lake", "/srv/lake"),
        ("/srv/lake", "/srv/lake"),
    ],
)
def test_addresses_that_are_understood(address: str, shown: str) -> None:
    place = folder_at(address, {}, {})

    assert str(place) == shown
    assert str(place.join("users")) == f"{shown}/users"
    assert isinstance(place, LocalFolder) == (shown[0] == "/")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("ftp://host/lake", "ftp: expected a folder, or an address that begins with file://, s3://"),
        ("s3:///raw", "s3:///raw: expected a bucket and a plain prefix"),
        ("s3://lake/../raw", "plain prefix"),
        ("s3://lake//raw", "plain prefix"),
        ("s3://lake/raw?x=1", "plain prefix"),
        ("file://host/lake", "expected three slashes"),
        ("file:lake", "expected three slashes"),
        ("file:///lake#1", "expected a path without"),
        (f"s3://key:{SECRET}@lake/raw", "s3://: access keys are not read from an address"),
    ],
)
def test_addresses_that_are_refused(address: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        folder_at(address, {}, {})

    assert said in str(refused.value)
    assert SECRET not in str(refused.value)


def test_what_is_not_given_comes_from_the_environment() -> None:
    environ = {"AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL": "http://there", "HOME": "/home/me", **KEYS}
    place = folder_at("s3://lake", {"AWS_REGION": "us-west-2", "AWS_ALLOW_HTTP": True}, environ)

    assert isinstance(place, ObjectStoreFolder)
    assert dict(place.options) == {
        **KEYS,
        "AWS_REGION": "us-west-2",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ENDPOINT_URL": "http://there",
    }
    assert folder_at("/lake", {"AWS_REGION": "x"}, environ) == LocalFolder(Path("/lake"))


def test_keys_of_the_environment_do_not_mix_with_those_that_are_given() -> None:
    environ = {"AWS_SESSION_TOKEN": "of another", **KEYS}
    place = folder_at("s3://lake", KEYS, environ)

    assert isinstance(place, ObjectStoreFolder)
    assert dict(place.options) == KEYS
    with pytest.raises(ConfigError, match="AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is missing"):
        folder_at("s3://lake", {"AWS_ACCESS_KEY_ID": "k"}, environ)


def test_an_unknown_option_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError, match=r"target.storage.AWS_REGIN: unknown option; did you mean 'AWS_REGION'"):
        folder_at("s3://lake", {"AWS_REGIN": "x"}, {})


def test_azure_needs_an_account_from_the_address_or_the_options() -> None:
    with pytest.raises(ConfigError, match="set AZURE_STORAGE_ACCOUNT_NAME"):
        folder_at("az://box/raw", {}, {}).names()


def test_only_keys_are_secrets_and_the_log_is_put_only_if_nobody_has() -> None:
    options: JsonObject = {"AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": True, "AZURE_STORAGE_ACCOUNT_KEY": "z", **KEYS}

    assert sorted(secrets_of(options)) == ["k", "s", "z"]
    assert for_delta("s3", ())["aws_conditional_put"] == "etag"


def test_what_must_lie_on_a_disk_lies_in_the_cache_one_folder_for_each_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    one, other = (folder_at(address, {}, {}).local_path for address in ("s3://lake/a", "s3://lake/b"))

    assert one != other
    assert one.parent == tmp_path / "spark-cdk" / "targets"
    assert as_folder(tmp_path).local_path == tmp_path / "_cdk"
    assert cache_folder({"HOME": "/home/me"}) == Path("/home/me/.cache/spark-cdk")


def said_by(server: ObjectStore, *troubles: Trouble, bucket: str = "lake") -> CdkError:
    """The error of a read or a write while the store is in trouble."""
    place = folder_at(f"s3://{bucket}/said", server.storage, {})
    server.misbehave(*troubles)
    try:
        with pytest.raises(CdkError) as caught:
            place.write("x", b"")
    finally:
        server.misbehave()
    error = caught.value
    assert error.path == f"s3://{bucket}/said"
    assert "\n" not in str(error)
    assert SECRET not in str(error) + error.detail
    assert error.__cause__ is None
    return error


def xml(code: str, more: str = "") -> str:
    return f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>No.</Message>{more}</Error>'


def test_a_bucket_that_is_missing_is_named(server: ObjectStore) -> None:
    error = said_by(server, bucket="puddle")

    assert isinstance(error, ConfigError)
    assert str(error).startswith("s3://puddle/said: there is no such bucket; create it, or correct the address")


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (403, "AccessDenied", "access denied"),
        (403, "InvalidAccessKeyId", "the store rejects the access keys"),
        (403, "SignatureDoesNotMatch", "the store rejects the access keys"),
        (301, "PermanentRedirect", "another region; set AWS_REGION"),
    ],
)
def test_a_refusal_says_what_to_do(server: ObjectStore, status: int, code: str, said: str) -> None:
    body = xml(code, f"<AWSAccessKeyId>{SECRET}</AWSAccessKeyId>")

    error = said_by(server, Trouble("PUT /lake", status=status, body=body))

    assert isinstance(error, ConfigError)
    assert said in str(error)


@pytest.mark.parametrize(("number", "kind"), [(28, TransientError), (30, ConfigError)])
@pytest.mark.parametrize("raised", [OSError, DeltaError])
def test_what_delta_cannot_write_to_a_disk_is_said_in_a_line(
    raised: type[Exception], number: int, kind: type[CdkError], tmp_path: Path
) -> None:
    text = f"Generic LocalFileSystem error\n  \x1b[31m↳\x1b[0m Unable to copy data to file\n (os error {number})"

    error = as_folder(tmp_path).explain(raised(text), "users")

    assert isinstance(error, kind)
    assert str(error).startswith(f"{tmp_path}: the target cannot be written: {os.strerror(number)}")
    assert "LocalFileSystem error Unable to copy data to file" in error.detail


def test_a_commit_that_may_not_be_written_to_a_disk_is_said_in_a_line(tmp_path: Path) -> None:
    text = "Generic LocalFileSystem error\n ↳ Unable to open file /my lake/_delta_log/3.json#1\n ↳ Denied (os error 13)"

    error = as_folder(tmp_path).explain(OSError(text), "users")

    assert isinstance(error, ConfigError)
    assert error.message == "the target cannot be written: Permission denied"


def test_what_cannot_be_read_from_a_disk_stays_as_it_is(tmp_path: Path) -> None:
    error = OSError("Generic LocalFileSystem error\n Unable to open file (os error 5)")

    assert as_folder(tmp_path).explain(error, "users") is error


def test_what_a_store_says_is_shown_without_the_secrets_in_it() -> None:
    place = folder_at("s3://lake", {**KEYS, "AWS_SECRET_ACCESS_KEY": SECRET}, {})
    error = place.explain(OSError(f"Generic S3 error\n\x1b[31m↳\x1b[0m no {SECRET}\n here"), "users")

    assert isinstance(error, TransientError)
    assert str(error).endswith(": Generic S3 error no **** here")
    assert SECRET not in error.detail
    assert error.stream == "users"


def test_a_store_that_is_busy_for_a_moment_is_asked_again_and_one_that_stays_so_is_an_error(
    server: ObjectStore,
) -> None:
    place = folder_at("s3://lake/busy", server.storage, {})
    server.misbehave(Trouble("PUT /lake", times=1))
    place.write("x", b"1")
    error = said_by(server, Trouble("PUT /lake", status=500, body=xml("InternalError")))

    assert place.read("x") == b"1"
    assert isinstance(error, TransientError)
    assert "the store returned an error" in str(error)


def test_a_store_that_is_not_there_is_an_error_with_its_endpoint() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    place = folder_at("s3://lake/raw", {**KEYS, "AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": True}, {})

    with pytest.raises(TransientError, match=f"the store cannot be reached at {endpoint}"):
        place.read("x")
