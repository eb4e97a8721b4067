"""What a sync counts and tells: standings of streams, the report of the run, OpenLineage events."""
