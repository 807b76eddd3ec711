"""Logins at the broker's SASL listeners.

`settings` reads what a listener's configs say; `server_authenticator` is the broker's half of a login,
without sockets; `gate` stands between a connection and the dispatcher for as long as nobody knows who is
there."""
