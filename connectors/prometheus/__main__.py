"""`python -m connectors.prometheus spec | check | discover | read`."""

from cdk import launch
from connectors.prometheus.source import Prometheus

if __name__ == "__main__":
    launch(Prometheus)
