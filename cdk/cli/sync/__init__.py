"""The command `sync`: a pipeline from a file or from options, and what the screen shows of its run."""
