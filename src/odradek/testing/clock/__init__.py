"""Time in hand: a clock that a test moves, and rest (docs/test_kit.md)."""
