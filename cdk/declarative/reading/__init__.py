"""Streams that manifests make, and how they read their pages."""
