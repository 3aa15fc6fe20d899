"""Which rank sits on which host: `Placement` (the map) and the methods that make one."""
