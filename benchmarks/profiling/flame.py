"""A flame graph as one SVG file, out of folded stacks (`outer;inner;innermost count` per line)."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

WIDTH = 1400
ROW = 17
LETTER = 6.6
LEAST_WIDTH = 0.4


class Node:
    """A function below its callers; `samples` in it or in what it called."""

    __slots__ = ("children", "name", "samples")

    def __init__(self, name: str) -> None:
        self.name = name
        self.samples = 0
        self.children: dict[str, Node] = {}


def tree(folded: Iterable[str], *, below: str = "") -> Node:
    """The tree of the stacks.

    Args:
        folded: lines `outer;inner count`.
        below: frames outside the first that has this in its name are left out; stacks without it are too.
    """
    root = Node("all")
    for line in folded:
        stack, _, count = line.rstrip().rpartition(" ")
        if not count.isdigit():
            continue
        frames = stack.split(";")
        if below:
            start = next((i for i, frame in enumerate(frames) if below in frame), None)
            if start is None:
                continue
            frames = frames[start:]
        node = root
        node.samples += int(count)
        for frame in frames:
            node = node.children.setdefault(frame, Node(frame))
            node.samples += int(count)
    return root


def depth(node: Node) -> int:
    """How many rows it takes."""
    return 1 + max((depth(child) for child in node.children.values()), default=0)


def _colour(name: str) -> str:
    shade = zlib.crc32(name.encode())
    if "odradek" in name:
        return f"rgb({225 + shade % 30},{110 + shade // 30 % 70},60)"
    if ".py" in name:
        return f"rgb({220 + shade % 30},{185 + shade // 30 % 40},90)"
    return f"rgb({150 + shade % 40},{175 + shade // 40 % 40},{205 + shade // 1600 % 40})"


def svg(root: Node, title: str) -> str:
    """The graph, the outermost frame on top; hovering shows names and shares."""
    height = (depth(root) + 2) * ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="monospace" '
        f'font-size="11"><rect width="{WIDTH}" height="{height}" fill="white"/>'
        f'<text x="6" y="13">{escape(title)}</text>'
    ]
    scale = WIDTH / root.samples if root.samples else 0.0

    def draw(node: Node, x: float, row: int) -> None:
        width = node.samples * scale
        if width < LEAST_WIDTH:
            return
        share = node.samples / root.samples
        about = quoteattr(f"{node.name}: {share:.2%}, {node.samples} samples")
        shown = node.name[: int(width / LETTER)] if width > 3 * LETTER else ""
        y = (row + 1) * ROW
        parts.append(
            f'<g><title>{about[1:-1]}</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" '
            f'height="{ROW - 1}" fill="{_colour(node.name)}"/>'
            f'<text x="{x + 2:.1f}" y="{y + 12}">{escape(shown)}</text></g>'
        )
        for child in sorted(node.children.values(), key=lambda one: one.name):
            draw(child, x, row + 1)
            x += child.samples * scale

    draw(root, 0.0, 0)
    return "".join([*parts, "</svg>\n"])


def heaviest(root: Node, most: int = 25) -> list[tuple[str, float, float]]:
    """Functions by samples in them alone: name, their share, and the share with what they call."""
    alone: dict[str, int] = {}
    with_callees: dict[str, int] = {}

    def visit(node: Node, above: frozenset[str]) -> None:
        inner = sum(child.samples for child in node.children.values())
        alone[node.name] = alone.get(node.name, 0) + node.samples - inner
        if node.name not in above:
            with_callees[node.name] = with_callees.get(node.name, 0) + node.samples
        for child in node.children.values():
            visit(child, above | {node.name})

    for child in root.children.values():
        visit(child, frozenset())
    names = sorted(alone, key=lambda name: -alone[name])[:most]
    return [(name, alone[name] / root.samples, with_callees[name] / root.samples) for name in names]
