"""OpenAPI descriptions: what they describe, and the drafts that it makes."""
