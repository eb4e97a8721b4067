"""The commands for authors of connectors: thin, around `cdk.authoring`."""
