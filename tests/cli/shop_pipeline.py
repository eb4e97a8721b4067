"""The pipeline `shop`, whose connector is a file beside it and whose config has a secret."""

from pathlib import Path
from textwrap import dedent

import pytest

SECRET = "hunter2"
PIPELINE = dedent("""
    name: shop
    source:
      connector: shop.py
      config: {api_key: "${API_KEY}"}
    target:
      path: tables
""")


def put_shop(folder: Path, connector: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write `pipeline.yaml` and `shop.py`, the code of the connector; tell the folder."""
    (folder / "pipeline.yaml").write_text(PIPELINE)
    (folder / "shop.py").write_text(connector)
    monkeypatch.setenv("API_KEY", SECRET)
    return folder
