"""The command line: commands, the files that people pass, and what they see.

Nothing is decided here that a program without a terminal needs. The names are imported when they are first used:
LATER_COMMANDS take a second, preview a tenth of one.
"""

from typing import TYPE_CHECKING

from cdk.base.lazy_names import lazy_names

if TYPE_CHECKING:  # importing them at run time would import Delta and rich
    from cdk.cli.authoring.doctor import check_pipeline
    from cdk.cli.authoring.preview import preview
    from cdk.cli.later_commands import LATER_COMMANDS

__all__ = ["LATER_COMMANDS", "check_pipeline", "preview"]

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__)
