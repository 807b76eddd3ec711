"""The log of one partition: append, read, flush, truncate, delete."""
