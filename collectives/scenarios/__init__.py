"""Scenarios for the fabric simulator: a fabric, settings and jobs in one file, as flows that wait for each other.

`spec` has the keys of the file, `reader` reads it, `jobs` turns schedules and a job's traffic into the rows of `workload`,
`build` puts all of it together.
"""
