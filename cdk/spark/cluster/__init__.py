"""Sessions of Spark, their Java and code, and the executors as workers of a sync."""
