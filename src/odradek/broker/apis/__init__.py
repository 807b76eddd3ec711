"""The APIs that are served: their handlers and versions, and what is answered where a handler could not."""
