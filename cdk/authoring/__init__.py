"""What authors use while they write a connector: previews, checks of files, new connectors, a look at the machine.

Values for commands and other programs; nothing here prints.
"""
