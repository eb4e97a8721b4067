"""What runs on the driver: streams are opened, slices handed out, and results committed, until all is read."""
