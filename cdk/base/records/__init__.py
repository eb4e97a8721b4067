"""Records as Python values, and as JSON text that is not decoded yet."""
