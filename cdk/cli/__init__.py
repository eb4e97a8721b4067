"""The command line: commands, the files that people pass, and what they see.

Nothing here is needed by programs without a terminal: they use the packages below.
"""
