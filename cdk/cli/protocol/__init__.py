"""The commands of the Airbyte protocol: spec, check, discover, read."""
