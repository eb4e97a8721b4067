"""This process: its garbage collector, locks, code that runs, what that prints, and where it can be made to die."""
