"""The manifest language: YAML becomes components, and components become streams of `cdk.rest` and `cdk.streams`."""
