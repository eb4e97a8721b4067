"""The command line: commands, the files that people pass, and what they see.

Nothing is decided here that a program without a terminal needs.
"""
