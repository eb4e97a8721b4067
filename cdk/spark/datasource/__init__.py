"""Spark's own doors to the streams of connectors."""

from cdk.spark.datasource.source import register

__all__ = ["register"]
