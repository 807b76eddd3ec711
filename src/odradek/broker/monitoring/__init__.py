"""A broker as an operator reads it over HTTP: its metrics, and whether it is healthy and ready."""
