"""Source states: what a source reported about its version, so that the next run reads only what is new.

They are the `source:` slots of a state log.
"""
