"""What is known of NCCL's settings and logs: variables, how values are parsed, lints, the first cause in a log."""
