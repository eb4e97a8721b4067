"""This process: its garbage collector, locks that end with it, named points at which it can be made to die."""
