"""Parquet files: write Arrow batches to files, and read, merge and rewrite files by key, one batch at a time.

Nothing here writes to a table's log; modules refer to a file by its entry in the log (`table_files`).
"""
