"""Components that make, pace, repeat and page requests."""
