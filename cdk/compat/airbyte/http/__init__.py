"""The names of `airbyte_cdk` that have to do with requests and responses."""
