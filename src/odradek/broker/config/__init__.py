"""What the broker is told: its configs, where they come from, how they change while it runs."""
