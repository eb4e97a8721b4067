"""Components that make records of responses: decoders, extractors, filters, transformations, schemas."""
