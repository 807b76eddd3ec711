"""TLS as broker, clients and the metadata store use it: key stores, contexts, names in certificates."""
