"""The option `where`: its text, its conditions, and what they cut off a range of offsets."""
