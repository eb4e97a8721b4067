"""Archives of Python code, for executors that do not have it installed.

An archive's name contains the order in which it was sent and a digest of its content, like
`shop-2-9f86d081884c7d65.zip`: Spark refuses a second file of the same name, and a session's Python searches the archive
that was sent last first.
"""

import ast
import hashlib
import re
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from msgspec import Struct

# The earliest time that a zip file can store. A fixed time makes archives of the same code identical.
_ALWAYS = (1980, 1, 1, 0, 0, 0)
_INSTALLED = {"site-packages", "dist-packages"}


class Code(Struct, frozen=True):
    """Files that are sent together. files: by their path in the archive, with `/`."""

    name: str
    files: Mapping[str, Path]

    @property
    def digest(self) -> str:
        """A digest that distinguishes this content from other content of the same name."""
        digest = hashlib.sha256()
        for inside, file in sorted(self.files.items()):
            content = file.read_bytes()
            digest.update(f"{inside}\n{len(content)}\n".encode())
            digest.update(content)
        return digest.hexdigest()[:16]


def package(name: str) -> Code | None:
    """Return all files of an importable package; None if it is a single file, or is not found."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Code(name, _below(Path(next(iter(spec.submodule_search_locations)))))


def neighbours(file: Path, already_sent: Collection[str] = ()) -> Code | None:
    """Return the files and whole packages beside a Python file that it imports, directly or indirectly.

    Includes imports inside functions. already_sent: names to leave out. None: it imports nothing from its folder, or is
    installed, in which case its imports are installed, too.
    """
    folder, files_by_name, todo = file.parent, dict[str, Path](), [file]
    while todo and folder.name not in _INSTALLED:
        for name in _imported(todo.pop()) - set(already_sent):
            if (alone := folder / f"{name}.py").is_file():
                files: Mapping[str, Path] = {alone.name: alone}
            else:
                files = _below(folder / name) if (folder / name).is_dir() else {}
            todo.extend(path for inside, path in files.items() if inside not in files_by_name and path.suffix == ".py")
            files_by_name.update(files)
    return Code(f"beside_{file.stem}", files_by_name) if files_by_name else None


def archived(code: Code, sent: Sequence[str], folder: Path) -> Path | None:
    """Write the archive of some code to `folder`; return None if the archive that was sent last has the same content.

    sent: names of the files that were sent to this session, in any order.
    """
    matches = (re.fullmatch(rf"{re.escape(code.name)}-(\d+)-([0-9a-f]+)\.zip", name) for name in sent)
    last, digest = max(((int(match[1]), match[2]) for match in matches if match), default=(0, ""))
    if digest == code.digest:
        return None
    archive = folder / f"{code.name}-{last + 1}-{code.digest}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        # Python finds a package without `__init__.py` in a zip file only if its folder has an entry.
        for inside in sorted({f"{parent}/" for file in code.files for parent in PurePosixPath(file).parents[:-1]}):
            out.writestr(zipfile.ZipInfo(inside, _ALWAYS), b"")
        for inside, file in sorted(code.files.items()):
            out.writestr(zipfile.ZipInfo(inside, _ALWAYS), file.read_bytes(), zipfile.ZIP_DEFLATED)
    return archive


def _below(root: Path) -> Mapping[str, Path]:
    files = (path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(root.parent).as_posix(): path for path in files}


def _imported(file: Path) -> set[str]:
    """Return the top-level names of the modules that a file imports; empty if it cannot be parsed."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return set()
    return {name.partition(".")[0] for node in ast.walk(tree) for name in _names(node)}


def _names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=str(name), level=0):
            yield name
        case _:
            pass
