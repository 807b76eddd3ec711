# compiled: mypyc
"""One client connection: frames in, answers out in the order of the requests.

The state is in three places, each bounded:

- `FrameReceiver`: a frame that has not arrived whole yet; it grows with what arrives;
- `_unprocessed`: whole frames that wait because the peer does not read its responses or is throttled, because
  too many requests of this connection are unanswered, because the broker as a whole holds too many bytes, or
  because those before them, or those of other connections, have taken a slice of time.
  While anything is here, nothing more is read from the socket; nor while the next frame would have to wait
  here. Whatever makes room calls `resume_soon`, for the frames as for the socket: when the last frame has
  been taken up nothing waits here, and the socket may still be paused;
- `_unanswered`: requests in work, oldest first. An answer that is ready waits here until all before it have
  left.

Frames are read where they arrived, in memory that the next read uses again: what is answered at once has used
its frame up by then, and whoever needs one for longer calls `own` of its slot first.

Answers that are ready when one read has been worked off leave in one write, those of other connections too:
see `odradek.broker.network.write_turn`.

Answers that hold ranges of files, and those behind them, go by way of `odradek.broker.network.sending`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, final

from mypy_extensions import mypyc_attr

from odradek.broker.network.dispatch import Dispatcher
from odradek.broker.network.limits import NetworkLimits
from odradek.broker.network.memory_pool import MemoryPool
from odradek.broker.network.outbox import SendingThreads
from odradek.broker.network.piece_sender import PieceSender
from odradek.broker.network.sending import FileSender, can_send_ranges
from odradek.broker.network.write_turn import WriteTurn
from odradek.broker.requests.answer import Answer
from odradek.broker.requests.peer import Peer
from odradek.errors import ProtocolError
from odradek.util.gathered_writes import Writelines, gathering_write
from odradek.util.repeats import Repeats
from odradek.wire.framing import FrameReceiver, ReceiveBuffers

if TYPE_CHECKING:
    from odradek.broker.requests.login_gate import GateKeeper, LoginGate
    from odradek.util.timers import TimerHandle, Timers

logger = logging.getLogger(__name__)

MAX_UNANSWERED = 256
"""Requests of one connection that may be in work at once; those behind them are not read from the socket.
(Kafka's `Processor` mutes a connection from each request to its response, so that there is one.)"""

MAX_UNANSWERED_BYTES: Final = 8 * 1024 * 1024
"""Bytes of requests of one connection in work, beyond which no further one is taken up."""

WRITE_HIGH_WATER: Final = 1024 * 1024
"""Bytes of responses that may wait for the peer before no more of its requests are taken up."""

QUICK_FRAME_BYTES: Final = 4 * 1024
"""A request that is no longer, and comes alone, is worked on at once, whatever others have to do."""

GATHERED_BYTES: Final = 64 * 1024
"""Bytes of answers that may be kept until the requests of a read have been worked off."""


def _drop(buffers: Sequence[Any]) -> None:
    """Write nothing, as nobody is connected."""


# A free list of one: mostly a slot dies before the next is made, which then takes its memory. The free lists
# of what each request makes save 4 % of a small produce's CPU.
@mypyc_attr(free_list_len=1)
@final
class _Slot:
    """A request in work, with its answer once that is there. Whoever makes it later calls the slot."""

    __slots__ = ("_connection", "answer", "context", "size")

    def __init__(self, connection: Connection, size: int) -> None:
        self._connection = connection
        self.size = size
        self.answer: Answer | None = None
        self.context: Any = None

    def __call__(self, answer: Answer) -> None:
        self._connection.answered(self, answer)

    @property
    def is_gone(self) -> bool:
        """See `odradek.broker.requests.answer.Later`."""
        return self.size == 0  # given back by `Connection._drop_requests`; no frame is empty

    def refuse(self, reason: str) -> None:
        """See `odradek.broker.requests.answer.Later`."""
        self._connection.close(reason, warn=True)

    def hold(self, held: bool) -> None:
        """See `odradek.broker.requests.answer.Later`."""
        self._connection.hold(held)

    def mute(self, timers: Timers, mute_ms: float, answer: Answer | None) -> None:
        """See `odradek.broker.requests.answer.Later`."""
        self._connection.mute(timers, mute_ms, None if answer is None else partial(self, answer))

    def own(self, frame: Any) -> Any:
        """See `odradek.broker.requests.answer.Later`."""
        return self._connection.own(frame)


class Accepting(Protocol):
    """The `Listener` that has accepted a connection, as the connection knows it.

    Attributes: see `Listener`.
    """

    loop: asyncio.AbstractEventLoop
    monotonic_s: Callable[[], float]
    dispatcher: Dispatcher
    limits: NetworkLimits
    receive_buffers: ReceiveBuffers
    sending_threads: SendingThreads
    memory_pool: MemoryPool
    write_turn: WriteTurn
    repeats_of_connections: Repeats
    sasl: GateKeeper | None

    def opened(self, connection: Connection) -> None:
        """See `Listener.opened`."""
        ...

    def closed(self, connection: Connection) -> None:
        """See `Listener.closed`."""
        ...

    def account_partial(self, connection: Connection, pending: int) -> None:
        """See `Listener.account_partial`."""
        ...


@final
class Connection:
    """One accepted socket, which asyncio reaches through its `SocketProtocol`.

    Attributes:
        peer: who is at the other end.
        monotonic_s: the listener's time, by which connections are idle.
        active_at: that time of the last bytes in (or out, of a long answer), for `connections.max.idle.ms`.
        partial_bytes: bytes of a frame that has not arrived whole.
        gate: asked instead of the dispatcher while nobody is logged in at a SASL listener.
    """

    __slots__ = (
        "_borrowing",
        "_close_reason",
        "_dispatcher",
        "_file_sender",
        "_gathered",
        "_gathered_answers",
        "_gathered_bytes",
        "_has_others",
        "_held",
        "_is_asked",
        "_listener",
        "_loop",
        "_muted",
        "_mutes",
        "_pool",
        "_reading",
        "_receiver",
        "_resuming",
        "_sending",
        "_transport",
        "_turn",
        "_unanswered",
        "_unanswered_bytes",
        "_unprocessed",
        "_writable",
        "_writelines",
        "active_at",
        "gate",
        "monotonic_s",
        "partial_bytes",
        "peer",
        "write_high_water",
    )

    def __init__(self, listener: Accepting, peer: Peer) -> None:
        self._listener = listener
        self._loop = listener.loop
        self._dispatcher = listener.dispatcher
        self._pool = listener.memory_pool
        self._receiver = FrameReceiver(listener.limits.max_request_bytes, listener.receive_buffers)
        self._borrowing = False
        """Whether the frame in work is in memory that is used again."""
        self._transport: asyncio.Transport | None = None
        self._writelines: Writelines = _drop
        self._unprocessed: deque[Any] = deque()
        """Whole frames that wait, each owned; while there is one the socket is not read, but for what a read
        had brought already."""
        self._unanswered: deque[_Slot] = deque()
        """Requests in the order of their arrival; but in `answered`, the first has no answer yet."""
        self._unanswered_bytes = 0
        """The sizes of those among them that have no answer: a ready answer waits for those before it, and
        its request's bytes are free."""
        self._held = 0
        """How many things keep the next request waiting: one that is worked on in slices, for order counts,
        and throttling."""
        self._mutes: list[TimerHandle] = []
        """The times of throttling, until all of them are over; each request in work may add one."""
        self._muted = 0
        """How many of these are not over; each of them holds as well."""
        self._writable = True
        """False while too many bytes of answers wait for the peer, at the transport or the file sender."""
        self._reading = True
        """What the transport was told last, so that it is told of changes alone."""
        self._resuming = False
        """Whether `resume_processing` is at work: what an answer frees its loop sees by itself."""
        self._is_asked = False
        """Whether the loop will have it go on in its next turn."""
        self._close_reason: str | None = None
        """Set once, by whoever ends the connection first: nothing is read or taken up from then on."""
        self._turn = listener.write_turn
        self._has_others = True
        """Whether more than one answer may come in this turn, as far as the requests of this read go."""
        self._gathered: list[Any] = []
        """Buffers of answers that are kept for a moment, to leave together."""
        self._gathered_answers = 0
        self._gathered_bytes = 0
        """Of these buffers, and not above `GATHERED_BYTES` when `_gather` returns."""
        self._file_sender: FileSender | PieceSender | None = None
        """Made by the first answer with ranges of a file, and kept: it may have a descriptor of its own."""
        self._sending: FileSender | PieceSender | None = None
        """The file sender, while it has something to send. Nothing is written to the transport then, because
        both write to the same socket and an answer would get into the middle of another."""
        self.monotonic_s = listener.monotonic_s
        self.active_at = self.monotonic_s()
        self.partial_bytes = 0
        self.peer = peer
        self.write_high_water = WRITE_HIGH_WATER
        self.gate: LoginGate | None = None
        if listener.sasl is not None:
            listener.sasl.open(self, listener.limits.max_request_bytes)

    # ------------------------------------------------------------------ called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start: the socket is ours."""
        self.peer.is_open = True
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "writelines")
        # uvloop's transports, and the layer of TLS, are transports without being asyncio's.
        self._transport = transport  # type: ignore[assignment]
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER)  # type: ignore[union-attr]
        self._writelines = gathering_write(self._transport)  # type: ignore[arg-type]
        self._listener.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Return where the transport puts the next bytes."""
        return self._receiver.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Take up what the peer has sent, which lies in the buffer."""
        # What still comes after the end was begun is no request any more: see `close`.
        if self._close_reason is not None:
            return
        self.active_at = self.monotonic_s()
        receiver = self._receiver
        try:
            frames = receiver.received(nbytes)
        except ProtocolError as error:
            self.close(f"malformed frame: {error}", warn=True)
            return
        if receiver.held_bytes != self.partial_bytes:
            self._listener.account_partial(self, receiver.held_bytes)
        if not frames:
            if self._muted:
                # The beginning of a frame is enough to go on with later.
                self._update_reading()
            return
        if self._unprocessed:
            # Behind those that wait, because answers, and appends of a producer, keep the order of arrival.
            self._unprocessed.extend(map(receiver.own, frames))
            return
        self._borrowing = True
        self._has_others = has_others = len(frames) > 1
        slicer = self._dispatcher.slicer
        # A small request that comes alone looks at no clock: others' work costs it a round of the loop
        # (docs/decisions/work-in-slices.md).
        may_take_long = has_others or len(frames[0]) > QUICK_FRAME_BYTES
        until = slicer.begin_slice() if may_take_long else 0.0
        begun = self._turn.begin()
        try:
            for position, frame in enumerate(frames):
                is_over = may_take_long and slicer.is_over(until)
                if is_over or not self._may_process():
                    self._unprocessed.extend(map(receiver.own, frames[position:]))
                    self._update_reading()
                    if is_over:
                        self._wait_turn(again=position > 0)
                    break
                if not self._process(frame):
                    break
        finally:
            self._borrowing = False
            self._has_others = True
            receiver.take_back()
            if begun:
                self._turn.end()

    def own(self, frame: Any) -> Any:
        """Return the frame in work, or a copy of it, as memory that may be kept."""
        return self._receiver.own(frame) if self._borrowing else frame

    def eof_received(self) -> bool:
        """The peer has finished sending: nobody waits for answers any more, as Kafka has it."""
        return False

    def pause_writing(self) -> None:
        """The peer does not read its responses: take up no more of its requests."""
        self._writable = False
        self._update_reading()

    def resume_writing(self) -> None:
        """The peer has read enough."""
        if self._sending is not None:
            self._sending.go_on()
            return
        self._writable = True
        self.resume_processing()

    def connection_lost(self, exc: Exception | None) -> None:
        """End, from whichever side."""
        self.peer.is_open = False
        if self._close_reason is None:
            self._close_reason = "closed by the peer" if exc is None else f"{type(exc).__name__}: {exc}"
            logger.debug(
                "connection closed peer=%s:%d reason=%s", self.peer.host, self.peer.port, self._close_reason
            )
        if self.peer.sasl is not None:
            self.peer.sasl.closed()
        self._receiver.close()
        self._listener.account_partial(self, 0)
        self._drop_requests()
        if self._file_sender is not None:
            self._file_sender.stop()
            self._file_sender = self._sending = None
        self._transport = None
        self._writelines = _drop
        self._listener.closed(self)

    # ------------------------------------------------------------------ requests

    def _may_process(self) -> bool:
        return (
            self._writable
            and not self._held
            and len(self._unanswered) < MAX_UNANSWERED
            and self._unanswered_bytes < MAX_UNANSWERED_BYTES
            and self._close_reason is None
            and self._pool.has_room(self)
        )

    def _process(self, frame: Any) -> bool:
        """Process one frame; false when the connection is over."""
        slot = _Slot(self, len(frame))
        # The slot goes in first: a handler may complete other requests of this very connection.
        self._unanswered.append(slot)
        self._unanswered_bytes += slot.size
        self._pool.used += slot.size
        try:
            gate = self.gate
            if gate is None:
                answer = self._dispatcher.dispatch(self.peer, frame, slot)
            else:
                answer = gate.dispatch(self.peer, frame, slot)
        except ProtocolError as error:
            # Closing gives back what every request in work holds, this one among them.
            self.close(str(error), warn=True)
            return False
        except Exception as error:
            self._listener.repeats_of_connections.log(
                logging.ERROR,
                type(error),
                "unforeseen failure peer=%s:%d",
                self.peer.host,
                self.peer.port,
                exc_info=error,
            )
            self.close("unforeseen failure", warn=True)
            return False
        if answer is not None:
            self.answered(slot, answer)
        return self._close_reason is None

    def limit_frames(self, max_bytes: int) -> None:
        """Take no longer frames than that from now on."""
        self._receiver.limit(max_bytes)

    def hold(self, held: bool) -> None:
        """See `odradek.broker.requests.answer.Later`."""
        if held:
            self._held += 1
        else:
            self._held -= 1
            # The answer leaves first.
            self.resume_soon()

    def mute(self, timers: Timers, mute_ms: float, then: Callable[[], None] | None) -> None:
        """Take nothing more up for so long, as the peer is throttled; then do `then`.

        Kafka: KIP-219, and the mute state MUTED_AND_THROTTLED of `KafkaChannel`.

        What comes next is read, no further, and waits: a peer that goes meanwhile is noticed.
        """
        if self._close_reason is not None:
            return
        self._held += 1
        self._muted += 1
        self._mutes.append(timers.call_later(mute_ms, partial(self._unmute, then)))

    def _unmute(self, then: Callable[[], None] | None) -> None:
        self._held -= 1
        self._muted -= 1
        if not self._muted:
            self._mutes.clear()
        if then is not None:
            then()
        self.resume_soon()

    def answered(self, slot: _Slot, answer: Answer) -> None:
        """Take an answer, and send what has become sendable."""
        slot.answer = answer
        slot.context = None  # it holds the slot: a cycle that would keep the answer
        self._unanswered_bytes -= slot.size
        self._pool.release(slot.size)
        unanswered = self._unanswered
        if not unanswered or unanswered[0] is not slot:
            # It waits for those before it, but its bytes are free: without this a connection that had reached
            # a bound would stay paused although no frame of it waits.
            self._go_on_soon()
            return
        transport = self._transport
        while unanswered:
            ready = unanswered[0].answer
            if ready is None:
                break
            unanswered.popleft()
            if transport is None:
                continue
            # Without any it is the place of a produce with acks=0, which is not answered.
            if ready.buffers is not None:
                if ready.ranges or self._sending is not None:
                    self.send_gathered()
                    self._send_beside(ready.buffers)
                elif self._gathered or (self._has_others and self._turn.is_open):
                    # Also the only answer of a read goes behind what is kept, or it would overtake it.
                    self._gather(ready.buffers)
                elif len(ready.buffers) == 1:
                    transport.write(ready.buffers[0])
                else:
                    self._writelines(ready.buffers)
            if ready.close:
                self.close("closed instead of an answer", warn=ready.buffers is None)
                return
        self._go_on_soon()

    def _go_on_soon(self) -> None:
        """Something that bounds this connection has become free: go on with the frames that wait for it, or
        with reading where no frame waits."""
        if (self._unprocessed or not self._reading) and not self._resuming:
            # This may be deep inside another connection's request, and so on.
            self.resume_soon()

    def _gather(self, buffers: list[Any]) -> None:
        if not self._gathered:
            self._turn.await_end(self)
        self._gathered += buffers
        self._gathered_answers += 1
        self._gathered_bytes += len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))
        if self._gathered_bytes > GATHERED_BYTES or not self._turn.is_open:
            self.send_gathered()

    def send_gathered(self) -> None:
        """Send what was kept, in one write."""
        gathered = self._gathered
        if not gathered:
            return
        several, size = self._gathered_answers > 1, self._gathered_bytes
        # First, as a write may have more requests taken up.
        self._gathered = []
        self._gathered_answers = self._gathered_bytes = 0
        transport = self._transport
        if transport is None:
            return
        if len(gathered) == 1:
            transport.write(gathered[0])
        elif several and size <= GATHERED_BYTES:
            transport.write(b"".join(gathered))
        else:
            self._writelines(gathered)

    def _send_beside(self, buffers: list[Any]) -> None:
        """Send an answer with ranges of files, or one behind such an answer."""
        transport, sender = self._transport, self._file_sender
        assert transport is not None
        if sender is None:
            try:
                if can_send_ranges(transport):
                    sender = self._file_sender = FileSender(
                        self, self._loop, transport, self._listener.sending_threads
                    )
            except OSError as error:
                self._listener.repeats_of_connections.log(
                    logging.WARNING,
                    None,
                    "no descriptor to send files by peer=%s:%d: %s",
                    self.peer.host,
                    self.peer.port,
                    error,
                )
            if sender is None:
                sender = self._file_sender = PieceSender(self, self._loop, transport)
        sender.send(buffers)
        if sender.left:
            self._sending = sender
            if sender.left > WRITE_HIGH_WATER:
                self.pause_writing()

    def sending_went_on(self, left: int) -> None:
        """See `SendingConnection`."""
        if left == 0:
            self._sending = None
            if self._close_reason is not None:
                if self._transport is not None:
                    self._transport.close()
                return
        # A quarter, as asyncio's own transports have it: a bound that is the same in both directions would
        # pause and resume at each answer.
        if not self._writable and left <= WRITE_HIGH_WATER // 4:
            self._writable = True
            self.resume_processing()

    def resume_soon(self) -> None:
        """Go on with the frames that had to wait, in the loop's next turn."""
        if not self._is_asked:
            self._is_asked = True
            self._loop.call_soon(self._resume_as_asked)

    def _wait_turn(self, *, again: bool) -> None:
        """Go on when it is this connection's turn. With `again` it has just had one, and others go first."""
        if not self._is_asked:
            self._is_asked = True
            self._dispatcher.slicer.wait_turn(self._resume_as_asked, again=again)

    def _resume_as_asked(self) -> None:
        self._is_asked = False
        self.resume_processing()

    def resume_processing(self) -> None:
        """Go on with the frames that had to wait, as far as may be, and read again when none is left."""
        unprocessed = self._unprocessed
        # An answer that comes at once calls this again: the loop here is the one that goes on.
        self._resuming = True
        slicer = self._dispatcher.slicer
        until = slicer.begin_slice() if unprocessed else 0.0
        begun = self._turn.begin()
        try:
            while unprocessed and self._may_process():
                if not self._process(unprocessed.popleft()):
                    return
                if unprocessed and slicer.is_over(until):
                    self._wait_turn(again=True)
                    break
        finally:
            self._resuming = False
            if begun:
                self._turn.end()
        self._update_reading()

    # ------------------------------------------------------------------ reading and closing

    def _update_reading(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        should_read = not self._unprocessed and self._may_process()
        if should_read != self._reading:
            self._reading = should_read
            if should_read:
                transport.resume_reading()
            else:
                transport.pause_reading()

    @property
    def idle(self) -> bool:
        """Return whether nothing of this connection is in work."""
        return not self._unanswered and not self._unprocessed

    def waits_for_answer_to(self, is_asker: Callable[[str], bool]) -> bool:
        """Return whether a request waits for something, be it for others or for its time.

        Args:
            is_asker: whether it counts, by the client id.
        """
        return any(slot.context is not None and is_asker(slot.context.client_id) for slot in self._unanswered)

    @property
    def unsent_bytes(self) -> int:
        """Return how many bytes of answers wait for the peer to read.

        Beyond `WRITE_HIGH_WATER` no more of its requests are taken up.
        """
        waiting = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return waiting if self._sending is None else waiting + self._sending.left

    def close(self, reason: str, *, warn: bool = False) -> None:
        """Take no more requests, drop what waits, and close once the answers already given are sent."""
        if self._close_reason is not None:
            return
        # First: from here on nothing is taken up, whoever is called by what follows.
        self._close_reason = reason
        self._say_why(logging.WARNING if warn else logging.DEBUG, reason)
        self._drop_requests()
        self.send_gathered()
        if self._transport is not None and self._sending is None:
            self._transport.close()

    def abort(self, reason: str, *, warn: bool = False) -> None:
        """Close at once; what has not been sent is dropped. Also ends a `close` that a silent peer holds
        up."""
        if self._close_reason is None:
            self._close_reason = reason
            self._say_why(logging.WARNING if warn else logging.INFO, reason)
        self._drop_requests()
        self._gathered = []
        self._gathered_answers = self._gathered_bytes = 0
        if self._file_sender is not None:
            self._file_sender.stop()
            self._sending = None
        if self._transport is not None:
            self._transport.abort()

    def _say_why(self, level: int, reason: str) -> None:
        # One line for each connection, that an operator sees who it was; how many is bounded by
        # `odradek.broker.process.logging.Flood`.
        logger.log(level, "closing a connection peer=%s:%d reason=%s", self.peer.host, self.peer.port, reason)

    def _drop_requests(self) -> None:
        self._unprocessed.clear()
        for slot in self._unanswered:
            if slot.answer is None:
                # Its answer may still come, to nobody; its bytes are no longer ours to hold.
                self._pool.release(slot.size)
                self._unanswered_bytes -= slot.size
                slot.size = 0
                context, slot.context = slot.context, None
                if context is not None and context.on_disconnect is not None:
                    context.on_disconnect()
        self._unanswered.clear()
        for timer in self._mutes:
            timer.cancel()
        self._mutes.clear()
