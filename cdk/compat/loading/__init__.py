"""Custom Python code is imported here, with the modules of `airbyte_cdk` that it names."""
