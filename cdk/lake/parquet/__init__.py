"""Arrow batches become Parquet files, and files are read, merged and rewritten by key; one batch at a time.

No log is read or written here: a file is known by its entry in a table's log (`table_files`).
"""
