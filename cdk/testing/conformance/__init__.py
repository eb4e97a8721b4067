"""The conformance suite: tests that a connector inherits, of what every connector must do."""
