"""The names of `airbyte_cdk` that concern requests and responses."""
