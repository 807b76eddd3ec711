"""The contents of pages, decided without I/O: from what the cluster tells to rows of text and numbers."""
