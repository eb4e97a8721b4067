"""Prometheus: the raw samples of time series, one window and one series at a time (https://prometheus.io)."""

from connectors.prometheus.source import Prometheus

__all__ = ["Prometheus"]
