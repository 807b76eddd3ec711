"""Topics read: what a batch holds is planned by the driver, and fetched and decoded by tasks."""
