"""What custom components import from `airbyte_cdk`: small classes of our own behind those names.

`cdk.compat.loading.served_names` says which name lives where. Nothing here is for new code.
"""
