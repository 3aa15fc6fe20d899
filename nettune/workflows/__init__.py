"""The stories that use everything: a cluster found, a job trained on it, the demo from end to end."""
