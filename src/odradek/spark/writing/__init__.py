"""Topics written: at least once by each task, or exactly once by transactions that the driver ends."""
