"""The commands for connector authors: thin wrappers around `cdk.authoring`."""
