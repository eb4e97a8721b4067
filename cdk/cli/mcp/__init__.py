"""`spark-cdk mcp`: offers the commands for connector authors as tools, over the Model Context Protocol."""
