"""The fabric: its model, where it is read from, how it routes, and where ranks are placed on it."""
