"""The streams that manifests define, and how they read their pages."""
