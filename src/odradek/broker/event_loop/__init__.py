"""The event loop: long work in slices, and its timers."""
