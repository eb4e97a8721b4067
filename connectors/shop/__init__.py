"""A small shop with a real API: the example of the tutorial and the demo."""

from connectors.shop.source import Shop

__all__ = ["Shop"]
