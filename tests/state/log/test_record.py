import orjson
import pytest

from cdk import BadState
from cdk.base.values import Json, canonical
from cdk.state import Slot, StateKey, StateRecord
from cdk.state.log.canonical_json import digest
from cdk.state.log.record import FORMAT, read_record

KEY = StateKey("shop", "prod")
RECORD = StateRecord(
    key=KEY,
    seq=42,
    parent="sha256:00",
    attempt="a1",
    status="final",
    created_at="2024-01-01T00:00:00.000+00:00",
    slots={"stream:users": Slot({"kind": "cdk/stream", "version": 1, "digest": "sha256:11", "value": {"page": 3}})},
    run={"id": "r1"},
    effects=({"sink": "delta:users", "rows": 7},),
    first=23,
    extra={"novelty": [1]},
)


def sealed(blob: dict[str, Json]) -> bytes:
    """Bytes as a kit would write them, with a digest that fits."""
    return canonical({**blob, "digest": digest(canonical(blob).encode())}).encode()


def blob(**changes: Json) -> dict[str, Json]:
    made: dict[str, Json] = orjson.loads(RECORD.to_bytes())
    del made["digest"]
    return {**made, **changes}


def test_a_record_comes_back_as_it_was_written() -> None:
    assert read_record(RECORD.to_bytes(), KEY, 42, "file") == RECORD
    assert read_record(RECORD.to_bytes(), KEY, 42, "file").digest == RECORD.digest
    assert read_record(RECORD.to_bytes(), KEY, 42, "file").to_bytes() == RECORD.to_bytes()


def test_the_format_of_a_record() -> None:
    assert blob() == {
        "format": "spark-cdk-state/1",
        "key": "prod/shop",
        "seq": 42,
        "first": 23,
        "parent": "sha256:00",
        "attempt": "a1",
        "status": "final",
        "run": {"id": "r1"},
        "slots": {"stream:users": {"kind": "cdk/stream", "version": 1, "digest": "sha256:11", "value": {"page": 3}}},
        "effects": [{"sink": "delta:users", "rows": 7}],
        "created_at": "2024-01-01T00:00:00.000+00:00",
        "novelty": [1],
    }


def test_what_newer_kits_added_is_kept() -> None:
    slot = {"kind": "x", "version": 1, "digest": "d", "value": 1, "note": "n"}
    data = sealed(blob(slots={"a:b": slot}, extra_field={"x": 1}))
    record = read_record(data, KEY, 42, "file")

    assert record.extra == {"novelty": [1], "extra_field": {"x": 1}}
    assert record.to_bytes() == data


@pytest.mark.parametrize(
    ("data", "where", "said"),
    [
        (b"", "file", "expected JSON"),
        (RECORD.to_bytes()[:-9], "file", "expected JSON"),
        (b"[]", "file", "expected an object"),
        (sealed(blob(format="spark-cdk-state/2")), "file format", f"expected '{FORMAT}'"),
        (sealed({"format": None}), "file format", "a newer kit may have written it"),
        (
            RECORD.to_bytes().replace(b'"page":3', b'"page":4'),
            "file digest",
            "was changed or truncated after it was written",
        ),
        (canonical(blob()).encode(), "file digest", "expected None"),
        (sealed(blob(key="prod/other")), "file key", "found 'prod/other', expected 'prod/shop'"),
        (sealed(blob(seq=41)), "file seq", "found 41, expected 42"),
        (sealed({k: v for k, v in blob().items() if k != "slots"}), "file", "without 'slots'"),
        (sealed(blob(slots=3)), "file", "expected the fields"),
    ],
)
def test_a_damaged_record_is_refused_with_what_was_found_and_expected(data: bytes, where: str, said: str) -> None:
    with pytest.raises(BadState) as refused:
        read_record(data, KEY, 42, "file")

    assert refused.value.path == where
    assert said in str(refused.value)
