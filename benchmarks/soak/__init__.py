"""A long run under everything at once, and the verdict whether the broker stays as it was. See `__main__`."""
