"""Collective operations: schedules, the traffic of a job, cost models and backends that run them."""
