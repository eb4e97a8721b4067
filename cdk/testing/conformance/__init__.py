"""What every connector must do, as tests that a connector inherits."""
