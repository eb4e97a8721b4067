"""Finds the records in response bodies: decoders, extraction, expansion, and bodies that are larger than memory."""
