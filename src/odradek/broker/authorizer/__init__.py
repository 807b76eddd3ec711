"""The authorizer: Kafka's ACLs, kept in the metadata store and asked by every handler (KIP-11, KIP-290)."""
