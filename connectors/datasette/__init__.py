"""Datasette: the tables of a database that it publishes (https://datasette.io), as a manifest only."""

from pathlib import Path

from cdk.sync import manifest_source

source = manifest_source(Path(__file__).with_name("manifest.yaml"))
