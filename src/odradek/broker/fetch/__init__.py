"""Fetch requests: the sessions that they come in, the reading, the form of the response."""
