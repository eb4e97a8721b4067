"""Spark's own doors to the streams of connectors."""

from cdk.spark.datasource.registration import register

__all__ = ["register"]
