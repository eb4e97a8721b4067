"""The reports of a sync: counts and status of its streams, the run report, OpenLineage events, Prometheus metrics."""
