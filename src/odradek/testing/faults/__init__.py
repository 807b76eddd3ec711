"""Faults that a test sets: which requests they meet, how often, and what becomes of these."""
