"""What components are made of: fields, plug points, the context they are built in."""
