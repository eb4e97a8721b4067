"""The Airbyte protocol: its messages, and how they become lines."""
