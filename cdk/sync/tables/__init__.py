"""What a sync decides about a stream's table: whether it fits, where to resume, what a commit writes and removes."""
