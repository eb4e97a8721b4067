"""Errors, JSON values, secrets, clocks, YAML with line numbers: what every package needs, and nothing about connectors.

`base.YamlFile` is imported on first use, because most runs need no YAML.
"""

from typing import TYPE_CHECKING

from cdk.base.first_use import lazy_names

if TYPE_CHECKING:  # importing it at run time would import PyYAML
    from cdk.base.yaml_file import YamlFile

__all__ = ["YamlFile"]

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__)
