"""The instructions, cache misses and look-ups of a request: as many on a busy machine as on a quiet one."""
