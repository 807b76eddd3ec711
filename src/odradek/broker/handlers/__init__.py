"""The handlers: one file per API, or per family of APIs that answer alike (`apis.registry` lists them)."""
