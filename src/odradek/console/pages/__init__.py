"""One module per group of pages: each asks the cluster for what its page shows, and renders it."""
