"""Finds what is hidden in texts by encoding it."""

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator
from urllib.parse import unquote


def decodings(text: str) -> Iterator[str]:
    """What decoding a text, or any part of it, gives."""
    yield unquote(text)
    yield text.replace('\\"', '"').replace("\\\\", "\\")
    yield text.encode().decode("unicode_escape", errors="ignore") if "\\u" in text else text
    for run in set(re.findall(r"[A-Za-z0-9+/_\-]{8,}", text)):
        if re.fullmatch(r"(?:[0-9a-f]{2})+", run):
            yield bytes.fromhex(run).decode(errors="ignore")
        plain = run.replace("-", "+").replace("_", "/")
        for shift in range(4):
            part = plain[shift:-1] if len(plain[shift:]) % 4 == 1 else plain[shift:]
            inner = b64decode(part + "=" * (-len(part) % 4)).decode(errors="ignore")
            # Chance alone makes short words.
            if len(re.findall(r"[\w:.\-]", inner)) > len(run) / 3:
                yield inner


def spelled(texts: Iterable[str]) -> str:
    """Some texts, and what is found in them by decoding four times."""
    known, fresh = set[str](), set(texts)
    for _ in range(4):
        known |= fresh
        fresh = {decoded for text in fresh for decoded in decodings(text)} - known
    return "\n".join(known | fresh)
