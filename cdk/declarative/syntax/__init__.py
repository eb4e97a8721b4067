"""The manifest as JSON, before components exist: references, parameters, old syntax, and errors with line numbers."""
