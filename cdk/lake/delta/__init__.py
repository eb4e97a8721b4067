"""Commit files and state to a Delta table in one transaction: guard, write modes, receipts, histories, compaction.

The layers above decide what a stream is and what the pipeline requests.
"""
