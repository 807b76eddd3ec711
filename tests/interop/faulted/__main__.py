"""Writes docs/faults_and_clients.md anew: `make faulted-clients`."""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict

from interop.faulted import page
from interop.faulted.cases import CASES
from interop.faulted.clients import CLIENTS, Running, missing
from interop.faulted.meeting import Cell, meet


def main() -> None:
    """Have all clients meet all cases, some of them where they are named, and write the page."""
    names = [client.name for client in CLIENTS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=3, help="how often each client meets each case")
    parser.add_argument("--client", action="append", choices=names, help="this one; the others' cells stay")
    parser.add_argument("--case", action="append", choices=[case.name for case in CASES], help="likewise")
    parser.add_argument("--add", action="store_true", help="what stands in the cells stays there as well")
    words = parser.parse_args()
    clients = [client for client in CLIENTS if words.client is None or client.name in words.client]
    if lacks := [lack for client in clients for lack in missing(client)]:
        sys.exit(f"not on this machine: {', '.join(lacks)}")
    versions, filled = page.read(page.PAGE.read_text(encoding="utf-8"), CASES)
    for client in clients:
        running = Running(client)
        try:
            cells: dict[str, list[Cell]] = defaultdict(list)
            for _ in range(words.times):
                for case in CASES:
                    if words.case is None or case.name in words.case:
                        cell = meet(running, case)
                        cells[case.name].append(cell)
                        print(client.name, case.name, *cell, flush=True)
        finally:
            running.close()
        for name, several in cells.items():
            before = filled[name, client.name].cells if words.add else []
            filled[name, client.name] = page.Filled([*before, *several])
        versions[client.name] = client.version()
    page.PAGE.write_text(page.document(CASES, versions, filled), encoding="utf-8")


if __name__ == "__main__":
    main()
