"""The current process: garbage collection, locks, running code and its output, interruption, and crash points."""
