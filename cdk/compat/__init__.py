"""Custom Python components of existing manifests: what they import from `airbyte_cdk`, and how they are run here."""
