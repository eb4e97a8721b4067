"""State logs: append-only, each record naming every slot."""
