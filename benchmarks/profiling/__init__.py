"""Where a broker's time goes. See `__main__`."""
