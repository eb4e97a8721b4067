"""The data source `cdk`: streams of connectors through `spark.read` and `spark.readStream`."""

from cdk.spark.datasource.registration import register

__all__ = ["register"]
