"""OpenAPI descriptions: parses them and drafts manifests from them."""
