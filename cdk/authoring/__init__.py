"""Tools for authors of connectors: previews, checks of files, drafts and new connectors, checks of the machine.

Functions here return values to commands and other programs; none of them prints.
"""
