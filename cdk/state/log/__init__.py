"""State logs: append-only logs whose records each name every slot."""
