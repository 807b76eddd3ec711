"""Who may do what, and how much of it: ACLs, credentials, delegation tokens, quotas, and their nodes."""
