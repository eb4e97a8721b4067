"""`python -m connectors.shop spec | check | discover | read`."""

from cdk import launch
from connectors.shop.source import Shop

if __name__ == "__main__":
    launch(Shop)
