"""`spark-cdk mcp`: the commands of an author as tools of an assistant, over the Model Context Protocol."""
