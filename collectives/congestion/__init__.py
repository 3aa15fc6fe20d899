"""Congestion control of a RoCE fabric: parameters in semantic units, their presets, DCQCN as a fluid, buffer thresholds.

`parameters` has one frozen dataclass an algorithm, `presets` the parameter sets that are in use by name, `fluid` the
delay differential equations of DCQCN with their fixed point and stability, `buffers` the thresholds of a switch.
"""
