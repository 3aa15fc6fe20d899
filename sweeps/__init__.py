"""Search for settings: spaces, samplers, executors, trials and their acceptance."""
