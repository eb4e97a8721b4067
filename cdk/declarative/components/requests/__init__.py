"""Components that build, pace, retry and paginate requests."""
