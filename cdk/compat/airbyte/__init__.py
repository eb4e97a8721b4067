"""The classes that custom components import from `airbyte_cdk`: small implementations of our own under its names.

`cdk.compat.loading.served_names` lists which module serves which name. New code should use nothing from here.
"""
