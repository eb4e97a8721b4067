"""Messages as the wire spells them."""

import json

import msgspec
import pytest
from msgspec import ValidationError, convert

from cdk.base.values import Json
from cdk.protocol.catalog import AirbyteCatalog, AirbyteStream, ConfiguredAirbyteCatalog, StreamDescriptor, SyncMode
from cdk.protocol.lines import message_line
from cdk.protocol.messages import (
    AdvancedAuth,
    AirbyteConnectionStatus,
    AirbyteControlConnectorConfigMessage,
    AirbyteControlMessage,
    AirbyteGlobalState,
    AirbyteMessage,
    AirbyteRecordMessage,
    AirbyteStateMessage,
    AirbyteStateStats,
    AirbyteStateType,
    AirbyteStreamState,
    CheckStatus,
    ConnectorSpecification,
    OrchestratorType,
    Type,
)


def wire(message: AirbyteMessage) -> Json:
    line = message_line(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    return json.loads(line)


def test_a_specification_has_only_the_parts_of_oauth_that_the_protocol_defines() -> None:
    known = {"complete_oauth_output_specification": {"type": "object"}}
    auth = {"auth_flow_type": "oauth2.0", "oauth_config_specification": {**known, "oauth_token_url": "https://a.test"}}

    spec = ConnectorSpecification(connection_specification={}, advanced_auth=convert(auth, AdvancedAuth))

    assert wire(AirbyteMessage(type=Type.SPEC, spec=spec))["spec"]["advanced_auth"] == {
        **auth,
        "oauth_config_specification": known,
    }


def test_fields_that_are_none_are_left_out_and_nulls_inside_a_state_stay() -> None:
    state = AirbyteStateMessage(
        type=AirbyteStateType.STREAM,
        stream=AirbyteStreamState(
            stream_descriptor=StreamDescriptor(name="users"), stream_state={"a": None, "b": [{"c": None}]}
        ),
        source_stats=AirbyteStateStats(record_count=3),
    )

    assert wire(AirbyteMessage(type=Type.STATE, state=state)) == {
        "type": "STATE",
        "state": {
            "type": "STREAM",
            "stream": {"stream_descriptor": {"name": "users"}, "stream_state": {"a": None, "b": [{"c": None}]}},
            "sourceStats": {"recordCount": 3.0},
        },
    }


def test_a_global_state_is_written_under_its_wire_name() -> None:
    item = AirbyteStreamState(stream_descriptor=StreamDescriptor(name="a", namespace="n"), stream_state={})
    state = AirbyteStateMessage(
        type=AirbyteStateType.GLOBAL, global_=AirbyteGlobalState(stream_states=[item], shared_state={"x": None})
    )

    assert wire(AirbyteMessage(type=Type.STATE, state=state))["state"] == {
        "type": "GLOBAL",
        "global": {
            "stream_states": [{"stream_descriptor": {"name": "a", "namespace": "n"}, "stream_state": {}}],
            "shared_state": {"x": None},
        },
    }


def test_nulls_of_a_record_stay_at_every_level() -> None:
    record = AirbyteRecordMessage(stream="users", data={"a": None, "b": {"c": None}}, emitted_at=1)

    assert wire(AirbyteMessage(type=Type.RECORD, record=record))["record"]["data"] == {"a": None, "b": {"c": None}}


def test_keys_are_spelt_as_the_protocol_does() -> None:
    status = AirbyteMessage(
        type=Type.CONNECTION_STATUS, connection_status=AirbyteConnectionStatus(status=CheckStatus.FAILED)
    )
    control = AirbyteMessage(
        type=Type.CONTROL,
        control=AirbyteControlMessage(
            type=OrchestratorType.CONNECTOR_CONFIG,
            emitted_at=1,
            connector_config=AirbyteControlConnectorConfigMessage(config={"token": None}),
        ),
    )
    spec = AirbyteMessage(
        type=Type.SPEC, spec=ConnectorSpecification(connection_specification={}, documentation_url="https://x")
    )

    assert wire(status) == {"type": "CONNECTION_STATUS", "connectionStatus": {"status": "FAILED"}}
    assert wire(control)["control"]["connectorConfig"] == {"config": {"token": None}}
    assert wire(spec)["spec"] == {
        "connectionSpecification": {},
        "documentationUrl": "https://x",
        "supportsNormalization": False,
        "supportsDBT": False,
    }


def test_unknown_fields_are_ignored_and_unknown_values_are_not() -> None:
    item: dict[str, Json] = {
        "stream": {"name": "users", "json_schema": {}, "supported_sync_modes": ["full_refresh"], "new": 1},
        "sync_mode": "incremental",
        "destination_sync_mode": "append_dedup",
        "generation_id": 4,
    }
    catalog = {"future": 1, "streams": [item]}

    read = convert(catalog, ConfiguredAirbyteCatalog)

    assert read.streams[0].sync_mode is SyncMode.INCREMENTAL
    assert read.streams[0].generation_id == 4
    item["sync_mode"] = "sometimes"
    with pytest.raises(ValidationError):
        convert(catalog, ConfiguredAirbyteCatalog)


def test_a_message_read_back_is_the_message_written() -> None:
    line = b'{"type":"STATE","state":{"type":"LEGACY","data":{"users":{"a":null}}}}\n'

    assert message_line(msgspec.json.decode(line, type=AirbyteMessage)) == line


def test_descriptors_are_equal_and_hash_by_value() -> None:
    assert len({StreamDescriptor(name="a"), StreamDescriptor(name="a"), StreamDescriptor(name="a", namespace="n")}) == 2
    assert str(StreamDescriptor(name="a", namespace="n")) == "n.a"


def test_an_empty_schema_is_written() -> None:
    message = AirbyteMessage(type=Type.CATALOG, catalog=AirbyteCatalog(streams=[AirbyteStream(name="a")]))

    (stream,) = wire(message)["catalog"]["streams"]
    assert stream == {"name": "a", "json_schema": {}, "supported_sync_modes": ["full_refresh"]}
