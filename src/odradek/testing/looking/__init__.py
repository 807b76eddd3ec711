"""A look into a broker from a test: records, requests, groups; and waits for them."""
