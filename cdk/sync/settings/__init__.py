"""What people ask for: the pipeline file, the options of a stream, and the plan that both make for it."""
