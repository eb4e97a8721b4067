"""`spark-cdk ui`: a web page that shows pipelines, states and test reads, and edits manifests."""
