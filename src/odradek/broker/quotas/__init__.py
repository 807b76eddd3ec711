"""Quotas of clients: how much each may take, and what happens to one that takes more.

Without I/O and without a clock of their own; times are handed in, in monotonic milliseconds:

- `rates`: what has passed of late, and how long to wait until it is little enough;
- `precedence`: which quota is whose;
- `client_quota_manager`: both together, for one kind of quota, by client;
- `controller_mutation_quota_manager`, `connection_quotas`: the kinds that work otherwise.

`quota_managers` has one of each and follows the configs; `throttling` is what requests pass on their way.
docs/quotas.md says what an operator sees of it.
"""
