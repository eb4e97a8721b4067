"""Records out of response bodies: decoders, extraction, expansion, bodies that memory cannot hold."""
