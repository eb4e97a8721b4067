"""Spark sessions, the Java and the code that they need, and their executors as workers of a sync."""
