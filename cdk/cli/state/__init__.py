"""The commands below `spark-cdk state`."""
