"""Flame graphs: the tree of folded stacks, and that what is drawn is XML of the right widths."""

from __future__ import annotations

from xml.etree import ElementTree

from benchmarks.profiling.flame import WIDTH, depth, heaviest, svg, tree
from benchmarks.profiling.sampler import Sampler

from waiting import until

FOLDED = ["main;run;read <x> 3", "main;run;write 5", "main;idle 2", "other 7", "no count"]


def test_the_tree_counts_samples() -> None:
    root = tree(FOLDED)
    assert root.samples == 17
    assert root.children["main"].samples == 10
    assert root.children["main"].children["run"].samples == 8
    assert depth(root) == 4
    assert tree(FOLDED, below="run").samples == 8
    assert set(tree(FOLDED, below="run").children) == {"run"}


def test_the_graph_is_drawn_to_scale() -> None:
    graph = ElementTree.fromstring(svg(tree(FOLDED), 'a "title" & more'))
    space = "{http://www.w3.org/2000/svg}"
    widths = {
        group.find(f"{space}title").text.split(":")[0]: float(group.find(f"{space}rect").get("width"))  # type: ignore[union-attr, arg-type]
        for group in graph.iter(f"{space}g")
    }
    assert widths["all"] == WIDTH
    assert abs(widths["main"] - WIDTH * 10 / 17) < 0.1
    assert "read <x>" in widths


def test_the_heaviest_functions() -> None:
    found = heaviest(tree(["a;b;a 2", "a 1", "b 1"]))
    assert found == [("a", 0.75, 0.75), ("b", 0.25, 0.75)]


def test_the_sampler_sees_this_thread() -> None:
    sampler = Sampler()
    # It does not sleep: it is a thread at work that is sampled.
    until(lambda: len(sampler), "a first sample", every_s=0)
    stacks = sampler.stop()
    assert any("test_the_sampler_sees_this_thread" in stack for stack in stacks)
