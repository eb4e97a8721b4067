"""The workers' side of a sync: reads slices, buffers and writes their rows, and returns messages to the driver."""
