"""From what a person calls a connector to its `Source`; its config against its schema."""
