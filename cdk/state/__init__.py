"""State of streams and of runs: positions, partitions, slices, the wire form, state logs and their stores.

Nothing here reads a source or writes a table. The names exported here are for programs that keep state themselves:
logs and stores, run handlers, source states, bookmarks. They are imported lazily, because every command imports some
module of this package and must not pay for the others.
"""

from typing import TYPE_CHECKING

from cdk.base.first_use import lazy_names

if TYPE_CHECKING:  # at run time few programs need them
    from cdk.state.bookmarks import StateData, StateStore
    from cdk.state.handlers.intervals import Interval
    from cdk.state.handlers.redundant import Planned, RedundantRunSkipHandler
    from cdk.state.handlers.removal_guards import RemovalRefused
    from cdk.state.handlers.run import StatefulOptions, StatefulRun, stateful_run
    from cdk.state.handlers.stale import EntitySink, ScopeReport, StaleEntityRemovalHandler
    from cdk.state.log.record import Slot, StateRecord
    from cdk.state.log.retention import Retention
    from cdk.state.log.session import Mode, StateSession, open_session
    from cdk.state.log.sink_transaction import MarkedSink
    from cdk.state.log.slot_value import Kind, StateValue
    from cdk.state.log.state_log import StateLog
    from cdk.state.source_state.block_height import Block, BlockHeight
    from cdk.state.source_state.file_set import FileSet, SourceFile, local_files
    from cdk.state.source_state.http_validators import HttpProbe, HttpSnapshot
    from cdk.state.source_state.slots import (
        ETAG,
        LAST_MODIFIED,
        POLLING,
        SourceState,
        export_sources,
        from_odf,
        import_sources,
        slot_of,
        to_odf,
    )
    from cdk.state.source_state.validators import Validators, as_odf
    from cdk.state.stores.opening import open_store
    from cdk.state.stores.protocol import LogStore, StateKey

__all__ = [
    "ETAG",
    "LAST_MODIFIED",
    "POLLING",
    "Block",
    "BlockHeight",
    "EntitySink",
    "FileSet",
    "HttpProbe",
    "HttpSnapshot",
    "Interval",
    "Kind",
    "LogStore",
    "MarkedSink",
    "Mode",
    "Planned",
    "RedundantRunSkipHandler",
    "RemovalRefused",
    "Retention",
    "ScopeReport",
    "Slot",
    "SourceFile",
    "SourceState",
    "StaleEntityRemovalHandler",
    "StateData",
    "StateKey",
    "StateLog",
    "StateRecord",
    "StateSession",
    "StateStore",
    "StateValue",
    "StatefulOptions",
    "StatefulRun",
    "Validators",
    "as_odf",
    "export_sources",
    "from_odf",
    "import_sources",
    "local_files",
    "open_session",
    "open_store",
    "slot_of",
    "stateful_run",
    "to_odf",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__)
