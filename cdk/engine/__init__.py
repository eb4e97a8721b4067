"""The read loop of one process: executors, checkpoints between pages, messages of the protocol."""
