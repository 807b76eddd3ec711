"""SASL as Kafka uses it: mechanisms, logins and what carries them, without sockets and clocks of its own.

- `mechanisms`: what a mechanism is, on either side, and how it fails;
- `plain`, `scram` (over `scram_messages` and `scram_credentials`), `oauthbearer`: the mechanisms;
- `names`: how names stand in their messages;
- `jwt`: checks access tokens; `token_providers`: gets them;
- `jaas`: reads Kafka's `sasl.jaas.config`;
- `client_authenticator`: the client's half of a login on one connection; `logins`: who logs in.

Brokers and clients import it; it knows the wire, and nothing of either.
"""
