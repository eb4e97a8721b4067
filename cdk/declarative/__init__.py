"""The manifest language: from YAML to components, and from components to streams of `cdk.rest` and `cdk.streams`."""
