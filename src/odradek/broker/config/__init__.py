"""The broker's configs: where they come from, and how they change while it runs."""
