"""Requests and responses, and the transport between them: egress rules, origins, deadlines, redaction, metrics."""
