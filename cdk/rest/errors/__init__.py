"""Error handling: what a response or a failed request means, and whether, when and how often a request is retried."""
