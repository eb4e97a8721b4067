"""`spark-cdk ui`: a page to look at pipelines, states and test reads, which changes nothing."""
