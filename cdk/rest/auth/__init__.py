"""The authenticators, one kind per file, and the rules for obtaining and sharing access tokens."""
