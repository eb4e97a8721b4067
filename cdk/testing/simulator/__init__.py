"""The simulator: an API derived from a connector's requests, with records that conform to its streams' schemas."""
