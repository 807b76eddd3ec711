"""A broker or a cluster of a test, told over HTTP what becomes of it: `odradek mock`, docs/testing.md."""
