"""The commands `sync` and `plan`: a pipeline from a file or from options, and the display of its run."""
