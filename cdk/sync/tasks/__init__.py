"""What runs on a worker: slices are read, their rows are buffered and written; messages travel back."""
