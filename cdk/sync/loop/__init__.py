"""The driver's side of a sync: opens streams, hands out slices and commits results until everything is read."""
