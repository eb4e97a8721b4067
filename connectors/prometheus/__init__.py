"""Prometheus: the raw samples of time series, a window of time and a series at a time (https://prometheus.io)."""

from connectors.prometheus.source import Prometheus

__all__ = ["Prometheus"]
