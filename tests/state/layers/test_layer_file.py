"""A layer comes back from its bytes, whole or one key at a time, and what was changed is an error."""

from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk import BadState
from cdk.base.values import canonical
from cdk.state.layers.layer_file import Reader, StoredLayer, to_bytes

TEXTS = st.dictionaries(st.text(max_size=5).map(canonical), st.none() | st.text(max_size=40).map(canonical))


class Bytes:
    """Bytes that lie somewhere, and what was read of them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.reads: list[int] = []

    def read(self, offset: int, size: int | None) -> bytes:
        data = self.data[offset:] if size is None else self.data[offset : offset + size]
        self.reads.append(len(data))
        return data


def layer(read: Reader, entries: int, digest: str) -> StoredLayer:
    return StoredLayer(read, entries, digest, "7.layer")


@given(TEXTS, st.text(max_size=5).map(canonical))
@settings(deadline=None)
def test_a_layer_comes_back(texts: dict[str, str | None], other: str) -> None:
    data, digest = to_bytes(texts)
    lies = Bytes(data)

    assert layer(lies.read, len(texts), digest).texts == texts
    sought = layer(lies.read, len(texts), digest)
    assert all(sought.get(key, "absent") == texts.get(key, "absent") for key in (*texts, other))
    assert [*sought.sorted_from(other)] == [item for item in sorted(texts.items()) if item[0] >= other]
    assert [*sought.sorted_from(other, back=True)] == [item for item in sorted(texts.items())[::-1] if item[0] < other]


def many(count: int = 200_000) -> dict[str, str | None]:
    return {f'{{"shop":{n * 7_919 % 1_000_003}}}': f'{{"cursor":{{"page":{n}}}}}' for n in range(count)}


def test_one_key_is_found_by_the_index_and_one_block() -> None:
    texts = many()
    data, digest = to_bytes(texts)
    lies = Bytes(data)
    found = layer(lies.read, len(texts), digest)

    assert (found.get('{"shop":7919}', None), found.get('{"shop":0.5}', "absent")) == (texts['{"shop":7919}'], "absent")
    assert len(lies.reads) <= 3
    assert sum(lies.reads) < len(data) / 5


@pytest.mark.parametrize("back", [False, True])
def test_what_follows_a_key_is_found_by_the_index_and_its_block(*, back: bool) -> None:
    texts = many()
    data, digest = to_bytes(texts)
    lies = Bytes(data)

    items = [*islice(layer(lies.read, len(texts), digest).sorted_from('{"shop":5', back=back), 100)]

    near = [item for item in sorted(texts.items(), reverse=back) if (item[0] < '{"shop":5') is back]
    assert items == near[:100]
    assert sum(lies.reads) < len(data) / 5


def test_an_index_may_be_long() -> None:
    texts: dict[str, str | None] = {canonical(f"{n:03}{'x' * 3_000}"): canonical("y" * 70_000) for n in range(100)}
    data, digest = to_bytes(texts)

    assert layer(Bytes(data).read, len(texts), digest).get(canonical(f"042{'x' * 3_000}"), None) is not None


@pytest.mark.parametrize("at", [5, 200, -20])
def test_a_changed_byte_is_an_error(at: int) -> None:
    texts = many(9)
    data, digest = to_bytes(texts)
    changed = bytearray(data)
    changed[at] ^= 4
    damaged = layer(Bytes(bytes(changed)).read, len(texts), digest)

    for look in (lambda: damaged.texts, lambda: damaged.get('{"shop":0}', None)):
        with pytest.raises(BadState, match=r"7\.layer.*it was changed or truncated"):
            look()


def test_another_number_of_entries_is_an_error() -> None:
    data, digest = to_bytes(many(9))

    with pytest.raises(BadState, match="found 9, expected 10 entries"):
        _ = layer(Bytes(data).read, 10, digest).texts


def test_another_format_is_an_error() -> None:
    data, _ = to_bytes({})
    other = data.replace(b"layer/1", b"layer/9")
    _, digest = to_bytes({})
    with pytest.raises(BadState, match="an index of the digest"):
        _ = layer(Bytes(other).read, 0, digest).texts
