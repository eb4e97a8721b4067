"""The settings of a sync: the pipeline file, the options per stream, and the plan that results from both."""
