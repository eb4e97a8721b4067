"""What a source said of itself, so that the next run reads only what is new: the `source:` slots of a state log."""

from cdk.state.source_state.block_height import Block, BlockHeight
from cdk.state.source_state.file_listing import SourceFile, local_files
from cdk.state.source_state.file_set import FileSet
from cdk.state.source_state.http_validators import HttpProbe, HttpSnapshot
from cdk.state.source_state.open_data_fabric import SourceState, export_sources, from_odf, import_sources, to_odf
from cdk.state.source_state.slots import ETAG, LAST_MODIFIED, POLLING, slot_of
from cdk.state.source_state.validators import Validators, as_odf

__all__ = [
    "ETAG",
    "LAST_MODIFIED",
    "POLLING",
    "Block",
    "BlockHeight",
    "FileSet",
    "HttpProbe",
    "HttpSnapshot",
    "SourceFile",
    "SourceState",
    "Validators",
    "as_odf",
    "export_sources",
    "from_odf",
    "import_sources",
    "local_files",
    "slot_of",
    "to_odf",
]
