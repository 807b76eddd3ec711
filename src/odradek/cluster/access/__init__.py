"""Access, who may do what and how much: ACLs, credentials, delegation tokens, quotas, and their nodes."""
