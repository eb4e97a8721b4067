"""Delta tables with their state, in a folder or an object store: rows become files here, and files a commit.

Nothing in here reads a stream or knows Spark: pyarrow and deltalake do the work, and a task map (`cdk.base.task_map`)
spreads it where there is something to spread it over.
"""
