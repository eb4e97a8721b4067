"""The manifest as JSON, before any component exists: references, parameters, old spellings, errors with lines."""
