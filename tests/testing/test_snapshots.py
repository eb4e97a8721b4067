from pathlib import Path

import pytest

from cdk.testing import MockApi, assert_snapshot, read
from cdk.testing.plugin import UPDATE
from tests.testing.blog import CONFIG, Blog, blog_api


def snapshot(path: Path, api: MockApi) -> None:
    assert_snapshot(path, read(Blog(), config=CONFIG, transport=api), api)


def test_a_read_is_compared_with_the_one_that_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "snapshots" / "blog.json"
    with pytest.raises(AssertionError, match=r"blog.json: found no snapshot; write it with"):
        snapshot(path, blog_api())
    monkeypatch.setenv(UPDATE, "1")
    snapshot(path, blog_api())
    monkeypatch.delenv(UPDATE)

    snapshot(path, blog_api())

    text = path.read_text()
    assert "GET https://api.blog.test/users?page=2" in text
    assert "s3cret" not in text
    assert "token-1" not in text
    other = blog_api()
    other.get("/users", params={"page": 2}).returns(json={"users": [{"id": 4}]})
    other.get("/users/4/posts").returns(json={"posts": [], "has_more": False})
    with pytest.raises(AssertionError) as caught:
        snapshot(path, other)
    assert '-        "id": 3,' in str(caught.value).splitlines()
    assert '+        "id": 4' in str(caught.value).splitlines()
    assert "pytest --update-snapshots" in str(caught.value)
