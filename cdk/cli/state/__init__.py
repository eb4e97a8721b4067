"""The subcommands of `spark-cdk state`."""
