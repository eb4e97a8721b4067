"""Delta tables and their state, in a folder or an object store: writes rows to files and commits the files to tables.

Nothing in this package reads a stream or depends on Spark: pyarrow and deltalake do the work, and a task map
(`cdk.base.task_map`) distributes it where there are workers to distribute it to.
"""
