"""Imports custom Python code, and serves the modules of `airbyte_cdk` that it imports."""
