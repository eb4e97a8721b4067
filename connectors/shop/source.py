"""The shop as a source."""

from cdk import Source
from connectors.shop.streams import Customers, Orders, Products, Visits


class Shop(Source):
    """A small shop: the example of the tutorial."""

    name = "shop"
    stream_classes = (Products, Orders, Customers, Visits)
    config_schema = {  # noqa: RUF012 - never changed
        "type": "object",
        "required": ["base_url"],
        "properties": {"base_url": {"type": "string", "title": "Address", "examples": ["http://127.0.0.1:8000"]}},
    }
