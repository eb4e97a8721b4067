"""`python -m connectors.kinto spec | check | discover | read`."""

from cdk import launch
from connectors.kinto.source import Kinto

if __name__ == "__main__":
    launch(Kinto)
