"""Files and state become one commit of a Delta table: guard, write modes, receipts, histories, compaction.

What a stream is, and what the pipeline asks for, is settled above.
"""
