"""Components that define streams and their slices."""
