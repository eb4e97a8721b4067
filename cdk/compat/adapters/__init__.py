"""Adapters: custom objects in the form of the kit's own interfaces."""
