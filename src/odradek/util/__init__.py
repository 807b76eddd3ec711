"""Leaf helpers that know nothing of the rest: clocks and timers, handed in wherever time matters."""
