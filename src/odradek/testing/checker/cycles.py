"""Cycles of dependencies between committed transactions, after Adya.

- **ww**: T1 wrote a version of a partition and T2 the next one. **G0**, a write cycle, is a cycle of these.
  In a database that means torn writes. Kafka never isolates the writes of transactions from each other:
  records of two producers mix in every partition, so G0 is told but allowed (`report.ALLOWED`).
- **wr**: T2 polled what T1 wrote. **G1c**, circular information flow, is a cycle with a wr in it. Since ww
  cycles are usual here, only cycles of wr alone prove anything by default: T1 then has read, directly or
  through others, what T2 could only write after it had read from T1, and a consumer of committed records can
  never do that. With `write_order=True` ww takes part too, for brokers whose transactions are isolated.

ww joins neighbours in a log only: the rest follows from them. Strongly connected components are Tarjan's,
without recursion; the cycle that is shown is a shortest one through one of the component's edges.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator

from odradek.testing.checker.operations import Facts, Operation
from odradek.testing.checker.report import Anomaly

Graph = list[dict[int, str]]
"""Node → its successors, each with the words for the edge."""


def find(facts: Facts, write_order: bool = False) -> Iterator[Anomaly]:
    nodes, ww, wr = _graphs(facts)
    for component in components(ww):
        start, end = next((n, m) for n in component for m in ww[n] if m in component)
        yield _cycle("G0", nodes, ww, component, start, end)
    both = [{**w, **r} for w, r in zip(ww, wr, strict=True)] if write_order else wr
    for component in components(both):
        edge = next(((n, m) for n in component for m in wr[n] if m in component), None)
        if edge is not None:
            yield _cycle("G1c", nodes, both, component, *edge)


def _graphs(facts: Facts) -> tuple[list[Operation], Graph, Graph]:
    nodes = [
        operation for operation in facts.operations if operation.transactional and operation.type != "fail"
    ]
    number = {id(operation): place for place, operation in enumerate(nodes)}
    ww: Graph = [{} for _ in nodes]
    wr: Graph = [{} for _ in nodes]
    for partition, values in facts.writes.items():
        versions = sorted(
            (min(write.offsets), number[id(write.writers[0])])
            for write in values.values()
            if write.exists and write.offsets and len(write.writers) == 1 and id(write.writers[0]) in number
        )
        for (low, before), (high, after) in itertools.pairwise(versions):
            if before != after:
                ww[before].setdefault(after, f"wrote offset {low} of {partition} before offset {high} of")
    for reader, operation in enumerate(nodes):
        if operation.type != "ok":
            continue
        for record in operation.records:
            write = facts.writes[record.partition][record.value]
            writer = number.get(id(write.writers[0])) if len(write.writers) == 1 else None
            if writer is not None and writer != reader:
                words = f"wrote {record.value!r} at offset {record.offset} of {record.partition}, read by"
                wr[writer].setdefault(reader, words)
    return nodes, ww, wr


def components(graph: Graph) -> list[set[int]]:
    """The strongly connected components of more than one node (Tarjan 1972)."""
    index = [-1] * len(graph)
    low = [0] * len(graph)
    on_stack = [False] * len(graph)
    stack: list[int] = []
    cyclic: list[set[int]] = []
    count = 0
    for root in range(len(graph)):
        if index[root] >= 0:
            continue
        work: list[tuple[int, Iterator[int]]] = []
        enter: int | None = root
        while enter is not None or work:
            if enter is not None:
                index[enter] = low[enter] = count
                count += 1
                stack.append(enter)
                on_stack[enter] = True
                work.append((enter, iter(graph[enter])))
                enter = None
            node, successors = work[-1]
            for successor in successors:
                if index[successor] < 0:
                    enter = successor
                    break
                if on_stack[successor]:
                    low[node] = min(low[node], index[successor])
            if enter is not None:
                continue
            work.pop()
            if work:
                parent = work[-1][0]
                low[parent] = min(low[parent], low[node])
            if low[node] == index[node]:
                component: set[int] = set()
                while node not in component:
                    member = stack.pop()
                    on_stack[member] = False
                    component.add(member)
                if len(component) > 1:
                    cyclic.append(component)
    return cyclic


def _cycle(
    name: str, nodes: list[Operation], graph: Graph, component: set[int], start: int, end: int
) -> Anomaly:
    """The shortest cycle that begins with the edge from `start` to `end`."""
    came: dict[int, int] = {end: start}
    queue = deque([end])
    while start not in came:
        node = queue.popleft()
        for successor in graph[node]:
            if successor in component and successor not in came:
                came[successor] = node
                queue.append(successor)
    path = [start]
    while path[-1] != end:
        path.append(came[path[-1]])
    path = [start, *reversed(path)]  # start, end, …, start
    text = "; ".join(
        f"T{nodes[a].event} ({nodes[a].process}) {graph[a][b]} T{nodes[b].event}"
        for a, b in itertools.pairwise(path)
    )
    return Anomaly(
        name, f"a cycle of {len(path) - 1} transactions: {text}", tuple(nodes[n].event for n in path[:-1])
    )
