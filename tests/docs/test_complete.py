"""The docs leave nothing out, and what they name exists."""

import dataclasses
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, UnionType
from typing import Annotated, Any, get_args, get_origin

import click
import pytest
from pydantic import BaseModel

import cdk
import cdk.rest
import cdk.testing
from cdk.cli import app
from cdk.cli.check import check
from cdk.cli.discover import discover
from cdk.cli.read import read
from cdk.cli.spec import spec
from cdk.cli.sync import sync
from cdk.spark.lock import only_run
from cdk.spark.pipeline import Pipeline
from tests.docs.page import BLOCK, DOCS

ROOT = DOCS.parent
PAGES = [*sorted(DOCS.rglob("*.md")), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PLACE = re.compile(r"`((?:cdk|connectors|docs|tests|benchmarks)/[\w./-]+)`")
COMMANDS = (spec, check, discover, read, sync)
