"""Components that turn responses into records: decoders, extractors, filters, transformations, schemas."""
