"""A log moves to another data folder while it is written to; whatever happens meanwhile, nothing is lost."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from odradek.broker.event_loop.slices import take_all
from odradek.log.producers.producer_state import Origin
from odradek.log.storage.gap_marker import note_gaps
from odradek.log.storage.memory_files import Killed, MemoryFileSystem

from ..batches import NOW_MS, batch, marker, values_of
from ..following import remove_deleted
from .two_folders import (
    CONFIG,
    KEY,
    TOPIC_ID,
    A,
    B,
    C,
    World,
    advance,
    advance_to_the_swap,
    files_of,
    folders_marked,
)

pytestmark = pytest.mark.usefixtures("small_pieces")


def test_a_log_that_rests() -> None:
    world = World()
    note_gaps(world.files, A / "t-0")
    before = files_of(world.files, A / "t-0")
    times = {path.name: world.files.modified_ms(path) for path in world.files.files if path.suffix == ".log"}
    world.through(world.begin())
    assert world.log.directory == B / "t-0"
    assert files_of(world.files, B / "t-0") == before
    assert len([name for name in before if name.endswith(".log")]) > 3
    assert {p.name: world.files.modified_ms(p) for p in world.files.files if p.suffix == ".log"} == times
    assert folders_marked(world.files, "future") == []
    (old,) = folders_marked(world.files, "delete")
    assert old.parent == A
    world.check()
    world.put()
    remove_deleted(world.manager, NOW_MS + 1)
    assert folders_marked(world.files, "delete") == []
    world.manager.close()
    manager = world.again()
    assert world.log.directory == B / "t-0"
    world.check()
    assert manager.moves.unfinished == {}


def test_it_is_written_to_and_read_meanwhile() -> None:
    world = World()

    def work(number: int) -> None:
        if number % 3 == 0:
            world.put()
        world.check()

    assert world.through(world.begin(), work) > 12
    assert world.log.directory == B / "t-0"
    # Producers, epochs and indexes are as a start finds them in the new folder alone.
    world.manager.close()
    world.again()
    world.check()


def test_a_log_that_is_written_to_without_pause_moves_as_well() -> None:
    world = World(config=replace(CONFIG, segment_bytes=3000))
    count = world.through(world.begin(), lambda number: world.put() if number < 200 else None)
    assert count < 200
    assert world.log.directory == B / "t-0"
    world.check()


def test_producers_and_transactions_go_with_it() -> None:
    world = World(count=0)
    log = world.log

    def write(sequence: int) -> None:
        data = batch([b"x" * 40], producer_id=7, epoch=0, sequence=sequence, transactional=True)
        log.append(data, leader_epoch=0, now_ms=NOW_MS)

    for sequence in range(10):
        write(sequence)

    def work(number: int) -> None:
        if number == 4:
            log.append(marker(7, 0, commit=False), leader_epoch=1, origin=Origin.COORDINATOR, now_ms=NOW_MS)
        if number == 8:
            write(10)

    world.through(world.begin(), work)
    assert log.directory == B / "t-0"
    aborted = log.aborted_transactions(0, log.log_end_offset)
    assert [(one.first_offset, one.last_offset) for one in aborted] == [(0, 10)]
    entries, producer = log.epochs.entries, log.producers.entries[7]
    world.manager.close()
    world.again()
    assert world.log.aborted_transactions(0, log.log_end_offset) == aborted
    assert world.log.epochs.entries == entries
    assert world.log.producers.entries[7].last_batch == producer.last_batch
    assert world.log.producers.entries[7].txn_first_offset == producer.txn_first_offset


def delete_records(world: World) -> int:
    world.log.delete_records_before(9)
    world.manager.apply_retention(NOW_MS)
    remove_deleted(world.manager, NOW_MS)
    world.manager.checkpoint()
    return 9


def roll(world: World) -> int:
    world.log.roll(NOW_MS)
    world.put()
    return 0


def flush(world: World) -> int:
    world.log.flush()
    world.manager.checkpoint()
    return 0


def lead(world: World) -> int:
    world.epoch += 1
    world.log.assign_epoch(world.epoch, world.log.log_end_offset)
    world.put()
    return 0


def cut(world: World) -> int:
    world.log.truncate_to(world.log.log_end_offset - 2)
    world.acknowledged[-2:] = []
    world.log.commit_all()
    return 0


ACTS = [delete_records, roll, flush, lead, cut]


@pytest.mark.parametrize("act", ACTS)
def test_what_else_happens_to_it_meanwhile(act: Callable[[World], int]) -> None:
    last = World().through(World().begin())
    for at in range(60):
        world, kept = World(), [0]

        def once(number: int, world: World = world, kept: list[int] = kept, at: int = at) -> None:
            if number == at:
                kept[0] = act(world)

        count = world.through(world.begin(), once)
        if count <= at:
            break
        world.check(start_offset=kept[0])
        assert world.log.directory == B / "t-0"
        epochs = world.log.epochs.entries
        names = files_of(world.files, B / "t-0").keys()
        assert {int(name[:20]) for name in names if name.endswith(".log")} == set(world.log.segments.bases)
        if at % 2:
            world.manager.close()
        world.again()
        world.check(start_offset=kept[0])
        assert world.log.log_start_offset == kept[0]
        assert world.log.epochs.entries == epochs
    assert at >= 15 or last < 15


@pytest.mark.parametrize("end", ["clean stop", "kill", "power failure"])
def test_a_stop_between_two_steps(end: str) -> None:
    for at in range(100):
        world = World()
        move = world.begin()
        steps = move.steps()
        try:
            wait = next(steps)
            for number in range(at):
                if number % 4 == 0:
                    world.put()
                wait = advance(steps, wait)
        except StopIteration:
            break
        if end == "clean stop":
            world.manager.close()
        elif end == "power failure":
            world.log.flush()
            world.files.lose_power()
        unfinished = not move.has_swapped
        world.again()
        world.check()
        if end == "clean stop":
            assert all(not files_of(world.files, path) for path in folders_marked(world.files, "future"))
        if unfinished and at > 0 and end != "power failure":
            assert world.manager.moves.unfinished.keys() == {KEY}
        if world.manager.moves.unfinished:
            # It is begun again, in the same folder.
            again = world.begin()
            assert again.directory == folders_marked(world.files, "future")[0]
            world.through(again)
            assert world.log.directory == B / "t-0"
            world.check()
        world.put()
        world.check()
    assert at > 12


@pytest.mark.model
@pytest.mark.parametrize(("power", "strict"), [(False, False), (True, True)])
def test_killed_at_every_operation(power: bool, strict: bool) -> None:
    config = replace(CONFIG, flush_messages=1) if strict else CONFIG
    probe = World(config=config)
    first = probe.files.operations
    probe.through(probe.begin(), probe.put_now_and_then)
    last = probe.files.operations
    assert last - first > 80
    for at in range(first, last):
        world = World(MemoryFileSystem(random.Random(at)), config)
        assert world.files.operations == first
        world.files.kill_at = at
        with pytest.raises(Killed):
            world.through(world.begin(), world.put_now_and_then)
        if power:
            world.files.lose_power()
        world.again()
        log = world.log
        found = [value for _, value in values_of(log)]
        wanted = world.acknowledged
        where = f"seed={at} {world.files.history[at]}"
        assert found[: len(wanted)] == wanted, where
        assert len(found) <= len(world.acknowledged) + 1, where
        world.acknowledged = [value for value in found if value is not None]
        world.put()
        if world.manager.moves.unfinished:
            world.through(world.begin())
            assert log.directory == B / "t-0"
        world.check()


def test_given_up() -> None:
    for at in range(100):
        world = World()
        move = world.begin()
        steps = move.steps()
        try:
            wait = next(steps)
            for _ in range(at):
                wait = advance(steps, wait)
            swapped = move.has_swapped
            cancelled = world.manager.moves.cancel(KEY)
            assert cancelled is not swapped
            while True:
                wait = advance(steps, wait)
        except StopIteration:
            world.manager.moves.end(move)
        assert world.log.directory.parent == (B if move.has_swapped else A)
        assert not world.log.syncing.moving
        assert folders_marked(world.files, "future") == []
        world.put()
        remove_deleted(world.manager, NOW_MS + 1)
        assert folders_marked(world.files, "delete") == []
        world.check()
        world.again()
        world.check()
        if move.has_swapped and at > 30:
            break
    else:
        raise AssertionError("it never came to its end")


def test_back_again_and_on_to_a_third() -> None:
    files = MemoryFileSystem(random.Random(3))
    world = World(files)
    world.manager.close()
    world.again(A, B, C)
    for parent in (B, A, C, B):
        world.through(world.begin(parent), lambda number: world.put() if number % 5 == 0 else None)
        assert world.log.directory == parent / "t-0"
        world.check()
    world.manager.close()
    world.again(A, B, C)
    world.check()


def test_another_wish_while_one_is_under_way() -> None:
    world = World()
    world.manager.close()
    world.again(A, B, C)
    first = world.begin(B)
    assert world.manager.moves.begin(KEY, B) is None
    steps = first.steps()
    wait = next(steps)
    wait = advance(steps, wait)
    second = world.begin(C)
    assert first.is_over
    with pytest.raises(StopIteration):
        advance(steps, wait)
    assert {path.parent for path in folders_marked(world.files, "future")} <= {C}
    world.through(second)
    assert world.log.directory == C / "t-0"
    assert world.manager.moves.begin(KEY, C) is None
    world.check()


def test_deleted_meanwhile() -> None:
    for at in (0, 3, 10):
        world = World()
        move = world.begin()
        steps = move.steps()
        wait = next(steps)
        for _ in range(at):
            wait = advance(steps, wait)
        world.manager.delete(*KEY)
        with pytest.raises(StopIteration):
            advance(steps, wait)
        world.manager.moves.end(move)
        remove_deleted(world.manager, NOW_MS + 1)
        assert [path for path in world.files.dirs if path.name.startswith("t-")] == []


def test_deleted_just_behind_the_swap() -> None:
    world = World()
    move = world.begin()
    steps, wait = advance_to_the_swap(move)
    world.manager.delete(*KEY)
    with pytest.raises(StopIteration):
        while True:
            wait = advance(steps, wait)
    remove_deleted(world.manager, NOW_MS + 1)
    assert [path for path in world.files.dirs if path.name.startswith("t-")] == []


def test_what_is_told_of_a_copy() -> None:
    world = World()
    move = world.begin()
    lags: list[int] = []

    def look(number: int) -> None:
        (state,) = [one for one in take_all(world.manager.describe()) if one.path == B]
        if not move.has_swapped:
            (copy,) = state.replicas
            assert copy.is_future
            assert (copy.topic, copy.partition) == KEY
            assert 0 <= copy.size_bytes <= world.log.size_bytes
            lags.append(copy.offset_lag)

    world.through(move, look)
    assert lags == sorted(lags, reverse=True)
    assert lags[0] == len(world.acknowledged)
    assert 0 <= lags[-1] < 3
    states = {one.path: one.replicas for one in take_all(world.manager.describe())}
    assert states[A] == []
    assert [(one.topic, one.is_future) for one in states[B]] == [("t", False)]


def test_copies_that_nobody_waits_for() -> None:
    world = World()
    world.manager.close()
    beside = A / f"t-0.{'1' * 32}-future"
    alone = B / f"gone-0.{'2' * 32}-future"
    wanted = B / f"t-0.{'3' * 32}-future"
    for path in (beside, alone, wanted):
        world.files.make_dirs(path)
        world.files.open(path / f"{0:020}.log", create=True).pwrite([b"left over"], 0)
    world.again()
    # Beside its log a copy is of no use; one without its log may be the only one there is.
    assert folders_marked(world.files, "future") == [alone, wanted]
    assert world.manager.moves.unfinished == {KEY: wanted}
    world.through(world.begin(B))
    assert world.log.directory == B / "t-0"
    assert folders_marked(world.files, "future") == [alone]
    world.check()


def test_a_wish_for_a_partition_that_is_yet_to_come() -> None:
    world = World()
    for number in range(1, 6):
        world.manager.moves.prefer(("t", number), A)
        assert world.manager.create("t", number, CONFIG).directory.parent == A
    world.manager.moves.prefer(("t", 9), B)
    world.manager.prepare([("t", 9, TOPIC_ID)])
    assert world.manager.create("t", 9, CONFIG, TOPIC_ID).directory.parent == B
