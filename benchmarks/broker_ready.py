"""How long until a broker answers, and what an idle one keeps in memory."""

from __future__ import annotations

import time

from benchmarks.peers import BROKERS, running
from benchmarks.results import Measure, Outcome
from benchmarks.sections import Context

IDLE_S = 2.0


def run(name: str, context: Context) -> Outcome:
    """Start each broker on an empty folder, wait a moment, look at it, and stop it; in turns."""
    skipped: dict[str, str] = {}
    versions: dict[str, str] = {}
    ready = Measure("start on an empty folder", "seconds to the first answer", {}, less_is_better=True)
    memory = Measure("idle and fresh", "resident MiB", {}, less_is_better=True)
    for number in range(context.rounds):
        for who in BROKERS:
            if who in skipped:
                continue
            with running([who], skipped) as peers:
                for peer in peers.values():
                    time.sleep(IDLE_S)
                    ready.values.setdefault(who, []).append(peer.ready_s)
                    memory.values.setdefault(who, []).append(peer.resident_mib())
                    versions[who] = peer.version
                    words = f"ready in {peer.ready_s:.3f} s, {peer.resident_mib():.0f} MiB"
                    context.say(f"round {number + 1}: {who} {words}")
    settings = {"rounds": context.rounds}
    return Outcome(
        name, "Start and memory", list(BROKERS), versions, [ready, memory], settings, skipped=skipped
    )
