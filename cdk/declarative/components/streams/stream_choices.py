"""Streams that depend: on the config (`ConditionalStreams`), or on the state (`StateDelegatingStream`)."""

from collections.abc import Iterator
from typing import Self

from pydantic import Field, model_validator

from cdk.declarative.components.streams.streams import DeclarativeStream
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.declared_stream import DeclaredStream
from cdk.declarative.model.plug_points import AnyStream, AnyStreams
from cdk.declarative.reading.state_delegating_stream import DelegatingStream


class ConditionalStreams(AnyStreams):
    """Streams that are there when a condition on the config holds.

    Example:
        type: ConditionalStreams
        condition: "{{ config.with_audit }}"
        streams:
          - type: DeclarativeStream
            name: audit
            retriever:
              type: SimpleRetriever
              requester: {type: HttpRequester, url: "https://api.example.com/audit"}
              record_selector:
                type: RecordSelector
                extractor: {type: DpathExtractor, field_path: []}
    """

    streams_: list[AnyStream] = Field(alias="streams", description="The streams.")
    condition: str = Field(description="Whether they are there.")

    def streams(self, ctx: BuildContext) -> Iterator[DeclaredStream]:
        """The streams, if the condition holds."""
        if ctx.expression(self, "condition").true():
            for stream in self.streams_:
                yield stream.build(ctx)


class StateDelegatingStream(AnyStream):
    """One stream read in two ways: in full while it has no state, incrementally once it has one.

    Example:
        type: StateDelegatingStream
        name: orders
        full_refresh_stream:
          type: DeclarativeStream
          name: orders
          retriever: &retriever
            type: SimpleRetriever
            requester: {type: HttpRequester, url: "https://api.example.com/orders"}
            record_selector:
              type: RecordSelector
              extractor: {type: DpathExtractor, field_path: []}
        incremental_stream:
          type: DeclarativeStream
          name: orders
          retriever: *retriever
          incremental_sync:
            type: DatetimeBasedCursor
            cursor_field: updated_at
            datetime_format: "%Y-%m-%d"
            start_datetime: "2024-01-01"
    """

    name: str = Field(description="How catalogs, states and tables call it.")
    full_refresh_stream: DeclarativeStream = Field(description="How it is read without a state.")
    incremental_stream: DeclarativeStream = Field(description="How it is read with one.")
    api_retention_period: str | None = Field(
        None, description="How far back the API can look, ISO 8601: an older state is dropped."
    )

    @model_validator(mode="after")
    def _one_name(self) -> Self:
        names = {self.name, self.full_refresh_stream.name, self.incremental_stream.name}
        if len(names) > 1:
            raise ValueError(
                f"found the names {', '.join(sorted(map(repr, names)))}, expected one for all three streams"
            )
        return self

    def build(self, ctx: BuildContext, *, as_parent: bool = False) -> DelegatingStream:
        """The stream, which chooses when a read begins."""
        return DelegatingStream(
            self.full_refresh_stream.build(ctx, as_parent=as_parent),
            self.incremental_stream.build(ctx, as_parent=as_parent),
            retention=ctx.duration(self, "api_retention_period", None),
        )
