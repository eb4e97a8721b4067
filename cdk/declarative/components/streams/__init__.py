"""Components that make streams and their slices."""
