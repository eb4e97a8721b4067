"""What is sent to executors: found, named and packed, without Spark."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from cdk.spark.cluster.code_archives import Code, archived, neighbours, package


def written(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def code(folder: Path, text: str) -> Code:
    return Code("shop", {"shop/__init__.py": written(folder, {"a.py": text}) / "a.py"})


def test_changed_code_gets_a_name_of_its_own(tmp_path: Path) -> None:
    first = archived(code(tmp_path, "a = 1"), [], tmp_path)
    assert first is not None
    same = archived(code(tmp_path, "a = 1"), [first.name], tmp_path)
    second = archived(code(tmp_path, "a = 2"), [first.name], tmp_path)

    assert same is None
    assert second is not None
    assert second.name != first.name


def test_code_that_is_as_it_was_before_the_last_change_is_sent_again(tmp_path: Path) -> None:
    sent: list[str] = []
    for text in ("a = 1", "a = 2", "a = 1", "a = 1"):
        archive = archived(code(tmp_path, text), sent, tmp_path)
        # Whatever order Spark names them in.
        sent = sorted([*sent, *([archive.name] if archive else [])], reverse=True)

    assert sorted(name.split("-")[1] for name in sent) == ["1", "2", "3"]


def test_the_same_code_is_the_same_bytes_whenever_it_is_packed(tmp_path: Path) -> None:
    packed = []
    for number in range(2):
        folder = tmp_path / str(number)
        archive = archived(code(folder, "a = 1"), [], folder)
        assert archive is not None
        packed.append((archive.name, archive.read_bytes()))

    assert packed[0] == packed[1]


def test_other_packages_that_were_sent_do_not_count(tmp_path: Path) -> None:
    archive = archived(code(tmp_path, "a = 1"), ["shop_two-7-00.zip", "shop.zip", "cdk-3-00.zip"], tmp_path)

    assert archive is not None
    assert archive.name.startswith("shop-1-")


def test_a_file_is_sent_with_what_it_imports_from_beside_it(tmp_path: Path) -> None:
    written(
        tmp_path,
        {
            "main.py": "import json, near\nfrom package.inner import x\nimport main2 as m\n",
            "near.py": "def late():\n    import lazy\n",
            "lazy.py": "import main\n",
            "package/inner.py": "from deep import y\nfrom . import other\n",
            "package/data.txt": "kept",
            "package/__pycache__/inner.pyc": "no",
            "deep/__init__.py": "y = 1",
            "unrelated.py": "",
            "broken.py": "(",
            "main2.py": "import broken, cdk, os.path\nfrom .unrelated import z",
            "cdk/__init__.py": "",
        },
    )

    found = neighbours(tmp_path / "main.py", {"cdk"})

    assert found is not None
    assert set(found.files) == {
        "near.py",
        "lazy.py",
        "main.py",
        "main2.py",
        "broken.py",
        "deep/__init__.py",
        "package/inner.py",
        "package/data.txt",
    }


@pytest.mark.parametrize(
    "files", [{"a.py": "import json\nimport os\n"}, {"site-packages/a.py": "import b", "site-packages/b.py": ""}]
)
def test_a_file_that_needs_none_of_its_neighbours_travels_alone(tmp_path: Path, files: Mapping[str, str]) -> None:
    assert neighbours(written(tmp_path, files) / next(iter(files))) is None


def test_a_file_that_is_no_package_is_none() -> None:
    assert package("json.decoder") is None
    assert package("no_such_package_anywhere") is None
    assert package("cdk") is not None


def test_python_imports_what_was_packed(tmp_path: Path) -> None:
    written(
        tmp_path,
        {"a.py": "import plain, near", "plain/deep/inner.py": "x = 5", "near.py": "from plain.deep.inner import x"},
    )
    found = neighbours(tmp_path / "a.py")
    assert found is not None
    archive = archived(found, [], tmp_path)

    said = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(1, {str(archive)!r}); import near; print(near.x)"],
        check=True,
        capture_output=True,
        text=True,
        cwd="/",
    ).stdout

    assert said == "5\n"
