"""Commands that read the target of a pipeline: its tables, their rows by SQL, and the runs that wrote them."""
