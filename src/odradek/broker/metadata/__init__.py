"""The cluster as this broker knows it, and how handlers have the controller change it."""
