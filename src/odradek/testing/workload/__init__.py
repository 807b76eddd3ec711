"""Transactions of many clients under crashes, recorded as a history and judged.

`round.run_round` starts a broker in a process of its own and lets clients work on it, each step drawn from a
seed: producers that commit, abort and die in between (`writers`), members of a group that copy what they read
inside of transactions (`copiers`), readers (`readers`); some of the clients live in a process that is killed
(`hosts`), as is the broker. What they were told goes through a `journal` into a history for
`odradek.testing.checker`; `Verdict` adds what a history does not show: each record copied exactly once, and
no transaction left open.

    python -m odradek.testing.workload --minutes 60

The seed says what each client does; how their requests meet on the broker it does not, so that two runs with
one seed are never the same.
"""

from __future__ import annotations
