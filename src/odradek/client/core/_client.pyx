# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The producer's work per record, compiled. Twin: `odradek.client.core._pyappend`, whose docstrings are the
contract; tests hold the two equal.

`Appender.try_send` takes no lock. It runs without ever giving up the interpreter lock from where it looks at the
gate to where the record is in the batch: nothing there runs Python code or makes an object that the garbage
collector watches. So it happens at once for all other threads, and it gives way where one of them is inside the
gate.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.long cimport PyLong_AsLongLong
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.pythread cimport PyThread_get_thread_ident
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdint cimport int32_t, int64_t, uint8_t
from posix.time cimport CLOCK_REALTIME, clock_gettime, timespec

from odradek.records._inline cimport murmur2_hash, varint_size, write_bytes, write_varint

from odradek.records._kernel import append_record

cdef extern from "Python.h":
    int PyByteArray_Resize(object, Py_ssize_t) except -1
    object PyByteArray_FromStringAndSize(const char *, Py_ssize_t)
    char *PyByteArray_AS_STRING(object)
    Py_ssize_t PyByteArray_GET_SIZE(object)
    const char *PyUnicode_AsUTF8AndSize(object, Py_ssize_t *)
    int PyBytes_Check(object)
    int PyUnicode_CheckExact(object)
    int PyLong_CheckExact(object)
    void PyErr_Clear()
    void PyObject_GC_UnTrack(void *)
    ctypedef struct TypeWithNew "PyTypeObject":
        object (*tp_alloc)(type, Py_ssize_t)

DEF HEADER_BYTES = 61
DEF RECORD_OVERHEAD = 21  # records.builder.MAX_RECORD_OVERHEAD

cdef int64_t INT32_MAX = 0x7FFFFFFF
cdef int64_t MAX_TIMESTAMP = 0x7FFFFFFFFFFFFFFE
cdef int64_t MIN_TIMESTAMP = -1
cdef tuple NOTHING = ()
cdef object MINUS_ONE = -1


BUSY = 1
FULL = 2
MOVED = 3
NO_BATCH = 4

cdef object methods = None


def give_methods(waiting):
    """Take the class whose functions are the future's methods: they are written once, in Python."""
    global methods
    methods = waiting


@cython.no_gc
@cython.freelist(1024)
@cython.final
cdef class DeliveryFuture:
    """The fate of one record; see `odradek.client.core.delivery.DeliveryMethods`.

    Unknown to the garbage collector: a million of them in a list would make each of its rounds a long one. What
    points to them and is pointed to by them lets go when they are settled.
    """

    cdef public object _outcome
    cdef public object _callback
    cdef public int64_t _index
    cdef public int64_t _timestamp
    cdef public int64_t _key_size
    cdef public int64_t _value_size

    def __init__(self, outcome, int64_t index, int64_t timestamp, int64_t key_size, int64_t value_size):
        self._outcome = outcome
        self._callback = None
        self._index = index
        self._timestamp = timestamp
        self._key_size = key_size
        self._value_size = value_size

    cpdef object _final(self):
        """See the twin."""
        outcome = self._outcome
        while outcome.settled:
            moved = outcome.moved
            if moved is None:
                return outcome
            outcome, index = moved[self._index]
            self._index = index
            self._outcome = outcome
        return None

    def done(self):
        return self._final() is not None

    def cancelled(self):
        return False

    def result(self, timeout=None):
        return methods.result(self, timeout)

    def exception(self, timeout=None):
        return methods.exception(self, timeout)

    def metadata(self):
        return methods.metadata(self)

    def add_done_callback(self, callback):
        return methods.add_done_callback(self, callback)

    def __await__(self):
        return methods.__await__(self)


cdef inline DeliveryFuture new_delivery():
    return DeliveryFuture.__new__(DeliveryFuture)


cdef class Gate:
    """See the twin."""

    cdef object _acquire
    cdef object _release
    cdef bint held
    cdef unsigned long owner

    def __init__(self, lock):
        self._acquire = lock.acquire
        self._release = lock.release
        self.held = False
        self.owner = 0

    def __enter__(self):
        self.check_not_inside()
        self._acquire()
        self.owner = PyThread_get_thread_ident()
        self.held = True

    def __exit__(self, kind, value, traceback):
        self.held = False
        self._release()

    cpdef bint is_inside(self):
        """See the twin."""
        return self.held and self.owner == PyThread_get_thread_ident()

    cpdef check_not_inside(self):
        """See the twin."""
        if self.is_inside():
            from odradek.client.core._pyappend import INSIDE
            from odradek.client.errors import IllegalStateError

            raise IllegalStateError(INSIDE)

    def wait(self):
        """See the twin. The lock is never held where Python code may run."""
        self.check_not_inside()
        self._acquire()
        self._release()


cdef class OpenBatch:
    """See the twin."""

    cdef public object outcome
    cdef public list callbacks
    cdef public bytearray records
    cdef public int64_t count
    cdef public int64_t memory
    cdef public bint append_closed
    cdef public int64_t base_timestamp
    cdef public int64_t max_timestamp

    def __init__(self, outcome, type future_class not None):
        if future_class is not DeliveryFuture:
            raise TypeError("the futures are DeliveryFutures")
        self.outcome = outcome
        self.callbacks = []
        self.records = bytearray(HEADER_BYTES)
        self.count = 0
        self.memory = 0
        self.append_closed = False
        self.base_timestamp = -1
        self.max_timestamp = -1

    def append(self, timestamp, key, value, headers, callback):
        """See the twin."""
        cdef int64_t key_size = -1 if key is None else len(key)
        cdef int64_t value_size = -1 if value is None else len(value)
        cdef DeliveryFuture future
        if not MIN_TIMESTAMP <= timestamp <= MAX_TIMESTAMP:
            raise ValueError(f"invalid timestamp {timestamp}")
        cdef int64_t moment = timestamp
        cdef int64_t base = self.base_timestamp if self.count else moment
        append_record(self.records, self.count, moment - base, key, value, headers)
        future = new_delivery()
        future._outcome = self.outcome
        future._index = self.count
        future._timestamp = moment
        future._key_size = key_size
        future._value_size = value_size
        future._callback = callback
        self.base_timestamp = base
        self.count += 1
        if moment > self.max_timestamp:
            self.max_timestamp = moment
        if callback is not None:
            self.callbacks.append(future)
        return future

    @property
    def records_size(self):
        """See the twin."""
        return PyByteArray_GET_SIZE(self.records)


cdef class Sticky:
    """See the twin."""

    cdef public int64_t partition
    cdef public int64_t bytes

    def __init__(self):
        self.partition = -1
        self.bytes = 0


cdef class TopicLanes:
    """See the twin."""

    cdef public list lanes
    cdef public Sticky sticky
    cdef public int64_t batch_size

    def __init__(self, int64_t partitions, Sticky sticky not None, int64_t batch_size):
        self.lanes = [None] * partitions
        self.sticky = sticky
        self.batch_size = batch_size


cdef class Appender:
    """See the twin."""

    cdef Gate gate
    cdef public dict topics
    cdef public bint enabled
    cdef public bint ignore_keys
    cdef public int64_t memory_used
    cdef public int64_t round
    cdef public int64_t buffer_memory
    cdef public int64_t batch_size
    cdef public int64_t largest

    def __init__(self, gate, int64_t batch_size, int64_t buffer_memory):
        self.gate = gate
        self.topics = {}
        self.enabled = False
        self.ignore_keys = False
        self.memory_used = 0
        self.batch_size = batch_size
        self.buffer_memory = buffer_memory
        self.largest = buffer_memory

    def try_send(self, topic, value, key, partition, timestamp_ms, headers, callback):
        """See the twin."""
        cdef PyObject *found
        cdef TopicLanes lanes
        cdef OpenBatch batch
        cdef DeliveryFuture future
        cdef const char *key_data = NULL
        cdef const char *value_data = NULL
        cdef Py_ssize_t key_size = -1
        cdef Py_ssize_t value_size = -1
        cdef int64_t size = RECORD_OVERHEAD
        cdef int64_t moment
        cdef int64_t base
        cdef int64_t lane
        cdef int64_t delta
        cdef Py_ssize_t body
        cdef Py_ssize_t before
        cdef uint8_t *out
        cdef bint sticky = False
        cdef timespec now

        if not self.enabled or not PyUnicode_CheckExact(topic) or (headers is not NOTHING and headers):
            return None
        if value is not None:
            if PyBytes_Check(value):
                value_data = PyBytes_AS_STRING(value)
                value_size = PyBytes_GET_SIZE(value)
            elif PyUnicode_CheckExact(value):
                value_data = PyUnicode_AsUTF8AndSize(value, &value_size)
                if value_data == NULL:
                    PyErr_Clear()
                    return None
            else:
                return None
            size += value_size
        if key is not None:
            if PyBytes_Check(key):
                key_data = PyBytes_AS_STRING(key)
                key_size = PyBytes_GET_SIZE(key)
            elif PyUnicode_CheckExact(key):
                key_data = PyUnicode_AsUTF8AndSize(key, &key_size)
                if key_data == NULL:
                    PyErr_Clear()
                    return None
            else:
                return None
            size += key_size
        if timestamp_ms is None:
            clock_gettime(CLOCK_REALTIME, &now)
            moment = <int64_t>now.tv_sec * 1000 + now.tv_nsec // 1000000
        elif PyLong_CheckExact(timestamp_ms):
            try:
                moment = PyLong_AsLongLong(timestamp_ms)
            except OverflowError:
                return None
            if moment < 0 or moment > MAX_TIMESTAMP:
                return None
        else:
            return None
        if size > self.largest:
            return None

        # Here Python code may run for the last time. Whatever is looked at below is looked at after it.
        found = PyDict_GetItem(self.topics, topic)
        if found == NULL:
            return None
        lanes = <TopicLanes>found
        if partition is None:
            if key_size >= 0 and not self.ignore_keys:
                lane = (murmur2_hash(<const uint8_t *>key_data, key_size) & 0x7FFFFFFF) % PyList_GET_SIZE(lanes.lanes)
            else:
                sticky = True
                lane = lanes.sticky.partition
                if lanes.sticky.bytes + size >= 2 * self.batch_size:
                    return None
        elif PyLong_CheckExact(partition):
            try:
                lane = PyLong_AsLongLong(partition)
            except OverflowError:
                return None
        else:
            return None
        if lane < 0 or lane >= PyList_GET_SIZE(lanes.lanes):
            return None
        found = PyList_GET_ITEM(lanes.lanes, lane)
        if found == <PyObject *>None:
            return None
        batch = <OpenBatch>found
        if (self.gate is not None and self.gate.held) or batch.append_closed or batch.count == 0:
            return None
        before = PyByteArray_GET_SIZE(batch.records)
        if before + size >= lanes.batch_size or self.memory_used + size > self.buffer_memory:
            return None

        base = batch.base_timestamp
        delta = moment - base
        body = (2 + varint_size(delta) + varint_size(batch.count)
                + varint_size(key_size) + (key_size if key_size > 0 else 0)
                + varint_size(value_size) + (value_size if value_size > 0 else 0))
        if body > INT32_MAX:
            return None
        future = new_delivery()
        # A bytearray, not `records._growing.Bytes`: Python's half of the batch appends to it too.
        PyByteArray_Resize(batch.records, before + varint_size(body) + body)
        out = <uint8_t *>PyByteArray_AS_STRING(batch.records) + before
        out = write_varint(out, body)
        out[0] = 0
        out = write_varint(out + 1, delta)
        out = write_varint(out, batch.count)
        out = write_bytes(out, key_data, key_size)
        out = write_bytes(out, value_data, value_size)
        out[0] = 0
        future._outcome = batch.outcome
        future._index = batch.count
        future._timestamp = moment
        future._key_size = key_size
        future._value_size = value_size
        future._callback = callback
        batch.count += 1
        batch.memory += size
        self.memory_used += size
        if moment > batch.max_timestamp:
            batch.max_timestamp = moment
        if sticky:
            lanes.sticky.bytes += size
        if callback is not None:
            batch.callbacks.append(future)
        return future


    def forget(self):
        """See the twin."""
        self.topics.clear()
        if self.round >= 0:
            self.round += 1

    def shut(self):
        """See the twin."""
        self.enabled = False
        self.topics.clear()
        self.round = -1

    def append(
        self,
        dict queues not None,
        dict incomplete not None,
        tp,
        OpenBatch spare,
        timestamp,
        key,
        value,
        headers,
        callback,
        int64_t size,
        int64_t batch_size,
        int64_t about,
        TopicLanes lanes,
    ):
        """See the twin."""
        cdef OpenBatch batch = None
        cdef bint look
        cdef bint full
        cdef int64_t moment = timestamp
        cdef int64_t lane = tp[1]
        cdef object queue
        cdef object number = id(spare)
        cdef Py_ssize_t count
        cdef list answer = [None, None, None]
        # Here other Python code may run for the last time: nothing below makes an object that the collector watches.
        if self.gate is not None and self.gate.held:
            return BUSY
        if about != self.round or about < 0:
            return MOVED
        if self.memory_used + size > self.buffer_memory:
            return FULL
        queue = queues.get(tp)
        if queue is None:
            return NO_BATCH
        count = len(queue)
        if count:
            batch = <OpenBatch>queue[count - 1]
            if not batch.append_closed and PyByteArray_GET_SIZE(batch.records) + size > batch_size:
                batch.append_closed = True
        look = batch is None or batch.append_closed
        if look:
            if spare is None:
                return NO_BATCH
            batch = spare
        future = batch.append(moment, key, value, headers, callback)
        if look:
            queue.append(batch)
            incomplete[number] = batch
            size += HEADER_BYTES
        batch.memory += size
        self.memory_used += size
        full = PyByteArray_GET_SIZE(batch.records) >= batch_size
        if full:
            batch.append_closed = True
        if lanes is not None and 0 <= lane < PyList_GET_SIZE(lanes.lanes):
            self.topics[tp[0]] = lanes
            lanes.lanes[lane] = batch
        answer[0] = future
        answer[1] = look or full
        answer[2] = full
        return answer


cdef inline void give_item(object items, Py_ssize_t at, object item):
    """Into a tuple that nobody has seen yet."""
    Py_INCREF(item)
    PyTuple_SET_ITEM(items, at, item)


def report(list futures, type metadata_class, on_problem):
    """See the twin."""
    cdef DeliveryFuture future
    cdef object outcome = None
    cdef object callback
    cdef object error
    cdef object topic = None
    cdef object partition = None
    cdef int64_t offset = -1
    cdef int64_t append_time = -1
    cdef dict errors = None
    for future in futures:
        callback = future._callback
        if callback is None:
            continue
        future._callback = None
        if future._outcome is not outcome:
            outcome = future._final()
            if outcome is None:
                raise RuntimeError("a delivery is reported before it is settled")
            topic = outcome.topic
            partition = outcome.partition
            offset = outcome.base_offset
            append_time = outcome.append_time_ms
            errors = outcome.record_errors
        error = outcome.error
        try:
            if error is None:
                metadata = (<TypeWithNew *>metadata_class).tp_alloc(metadata_class, 6)
                give_item(metadata, 0, topic)
                give_item(metadata, 1, partition)
                give_item(metadata, 2, offset + future._index if offset >= 0 else MINUS_ONE)
                give_item(metadata, 3, append_time if append_time >= 0 else future._timestamp)
                give_item(metadata, 4, future._key_size)
                give_item(metadata, 5, future._value_size)
                PyObject_GC_UnTrack(<void *>metadata)  # text and numbers hold nothing
                callback(metadata, None)
            else:
                callback(None, error if errors is None else errors.get(future._index, error))
        except Exception as problem:
            on_problem(problem)


def unfilled(Py_ssize_t size):
    """See the twin."""
    if size < 0:
        raise ValueError("negative size")
    return PyByteArray_FromStringAndSize(NULL, size)
