"""The stores of state logs: folders, databases, object stores."""
