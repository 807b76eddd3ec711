# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The cleaner's loops over records, compiled. Twin: `odradek.log.cleaner._pykeys`, whose docstrings are the
contract; tests hold the two equal.
"""

import os

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from odradek.records._inline cimport varint_size, write_varint
from odradek.records._scan cimport OK, Scan, read_varint32, read_varint64, scan

cdef extern from *:
    """
    typedef unsigned __int128 odradek_u128;
    static inline uint64_t odradek_scale(uint64_t hash, uint64_t slots) {
        return (uint64_t)(((odradek_u128)hash * slots) >> 64);
    }
    """
    uint64_t odradek_scale(uint64_t hash, uint64_t slots) nogil

cdef enum:
    SLOT_BYTES = 24
    TRAILING = 7
    MIN_RECORD_BYTES = 7


# --- SipHash-2-4 with 128 bits of result (Aumasson and Bernstein): keyed, so that nobody can aim at a slot ----

cdef inline uint64_t rotate(uint64_t x, int bits) noexcept nogil:
    return (x << bits) | (x >> (64 - bits))


cdef inline void sip_round(uint64_t *v) noexcept nogil:
    v[0] += v[1]
    v[1] = rotate(v[1], 13) ^ v[0]
    v[0] = rotate(v[0], 32)
    v[2] += v[3]
    v[3] = rotate(v[3], 16) ^ v[2]
    v[0] += v[3]
    v[3] = rotate(v[3], 21) ^ v[0]
    v[2] += v[1]
    v[1] = rotate(v[1], 17) ^ v[2]
    v[2] = rotate(v[2], 32)


cdef inline uint64_t little_endian(const uint8_t *data, Py_ssize_t length) noexcept nogil:
    cdef uint64_t word = 0
    cdef Py_ssize_t i
    for i in range(length):
        word |= <uint64_t>data[i] << (8 * i)
    return word


cdef void siphash128(
    const uint8_t *data, Py_ssize_t length, uint64_t k0, uint64_t k1, uint64_t *high, uint64_t *low
) noexcept nogil:
    cdef uint64_t v[4]
    cdef uint64_t word
    cdef Py_ssize_t at = 0
    cdef int i
    v[0] = <uint64_t>0x736F6D6570736575 ^ k0
    v[1] = <uint64_t>0x646F72616E646F6D ^ k1 ^ 0xEE
    v[2] = <uint64_t>0x6C7967656E657261 ^ k0
    v[3] = <uint64_t>0x7465646279746573 ^ k1
    while at + 8 <= length:
        word = little_endian(data + at, 8)
        v[3] ^= word
        sip_round(v)
        sip_round(v)
        v[0] ^= word
        at += 8
    word = (<uint64_t>length << 56) | little_endian(data + at, length - at)
    v[3] ^= word
    sip_round(v)
    sip_round(v)
    v[0] ^= word
    v[2] ^= 0xEE
    for i in range(4):
        sip_round(v)
    high[0] = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    for i in range(4):
        sip_round(v)
    low[0] = v[0] ^ v[1] ^ v[2] ^ v[3]


def siphash(bytes data not None, bytes secret not None):
    """The 16 bytes of the hash under a secret of 16 bytes; for tests with the published vectors."""
    cdef uint64_t high, low
    cdef const uint8_t *key = secret
    if len(secret) != 16:
        raise ValueError("the secret has 16 bytes")
    siphash128(<const uint8_t *>data, len(data), little_endian(key, 8), little_endian(key + 8, 8), &high, &low)
    return int(high).to_bytes(8, "little") + int(low).to_bytes(8, "little")


# --- the map -------------------------------------------------------------------------------------------------

cdef struct Slot:
    uint64_t high
    uint64_t low
    int64_t next_offset  # the offset and one: 0 is an empty slot


cdef class KeyMap:
    """Open addressing over slots of 24 bytes, all of them taken at once."""

    cdef Slot *slots
    cdef uint64_t slot_count
    cdef readonly Py_ssize_t capacity
    cdef Py_ssize_t used
    cdef uint64_t k0
    cdef uint64_t k1
    cdef public int64_t latest_offset

    def __cinit__(self, int64_t dedupe_bytes, double load_factor):
        cdef bytes secret = os.urandom(16)
        self.slot_count = max(2, dedupe_bytes // SLOT_BYTES)
        # One slot stays free, or a search for what is not there would not end.
        self.capacity = max(1, min(<int64_t>(self.slot_count * load_factor), <int64_t>self.slot_count - 1))
        self.slots = <Slot *>calloc(self.slot_count, sizeof(Slot))
        if self.slots == NULL:
            raise MemoryError
        self.k0 = little_endian(secret, 8)
        self.k1 = little_endian(<const uint8_t *>secret + 8, 8)
        self.latest_offset = -1

    def __dealloc__(self):
        free(self.slots)

    def __len__(self):
        return self.used

    @property
    def utilization(self):
        return self.used / self.capacity

    def note_read(self, int64_t offset):
        if offset > self.latest_offset:
            self.latest_offset = offset

    cdef inline Slot *find(self, const uint8_t *key, Py_ssize_t length, uint64_t *high, uint64_t *low) noexcept nogil:
        """The slot of a key, or the free one where it would go."""
        siphash128(key, length, self.k0, self.k1, high, low)
        cdef uint64_t at = odradek_scale(high[0], self.slot_count)
        cdef Slot *slot
        while True:
            slot = &self.slots[at]
            if slot.next_offset == 0 or (slot.high == high[0] and slot.low == low[0]):
                return slot
            at += 1
            if at == self.slot_count:
                at = 0

    def put(self, bytes key not None, int64_t offset):
        cdef uint64_t high, low
        cdef Slot *slot
        if self.used >= self.capacity:
            return False
        slot = self.find(<const uint8_t *>key, len(key), &high, &low)
        self.set(slot, high, low, offset)
        return True

    cdef inline void set(self, Slot *slot, uint64_t high, uint64_t low, int64_t offset) noexcept nogil:
        if slot.next_offset == 0:
            slot.high = high
            slot.low = low
            self.used += 1
        slot.next_offset = offset + 1

    def get(self, bytes key not None):
        cdef uint64_t high, low
        return self.find(<const uint8_t *>key, len(key), &high, &low).next_offset - 1

    def index(self, section, int64_t count, int64_t base_offset, int64_t start_offset):
        cdef Py_buffer view
        cdef Scan found
        cdef Slot *slot
        cdef uint64_t high, low
        cdef const uint8_t *data
        cdef Py_ssize_t position = 0
        cdef int64_t number = 0
        cdef int problem = OK
        cdef bint full = False
        PyObject_GetBuffer(section, &view, PyBUF_SIMPLE)
        data = <const uint8_t *>view.buf
        with nogil:
            while number < count:
                problem = scan(data, position, view.len, &found)
                if problem:
                    break
                position = found.next
                if found.key_length >= 0 and base_offset + found.offset_delta >= start_offset:
                    if self.used >= self.capacity:
                        full = True
                        break
                    slot = self.find(data + found.key_at, found.key_length, &high, &low)
                    self.set(slot, high, low, base_offset + found.offset_delta)
                number += 1
            if not problem and not full and position != view.len:
                problem = TRAILING
        PyBuffer_Release(&view)
        return problem, number, full

    def retain(
        self,
        section,
        int64_t count,
        int64_t base_offset,
        int64_t timestamp,
        bint append_time,
        bint keep_tombstones,
        horizon,
    ):
        cdef Py_buffer view
        cdef Scan found
        cdef uint64_t high, low
        cdef const uint8_t *data
        cdef uint8_t *out = NULL
        cdef uint8_t *end = NULL
        cdef Py_ssize_t start, position = 0
        cdef int64_t number = 0
        cdef int64_t offset, record_timestamp
        cdef int64_t kept = 0, keyless = 0
        cdef int64_t max_timestamp = -1
        cdef int64_t base = 0
        cdef bint based = horizon is not None
        cdef bint tombstones = False
        cdef int problem = OK
        if based:
            base = horizon
        PyObject_GetBuffer(section, &view, PyBUF_SIMPLE)
        data = <const uint8_t *>view.buf
        # Another base timestamp makes a record longer by at most 10 bytes, and its length by at most 4: as the
        # largest result is known, nothing has to grow.
        out = <uint8_t *>malloc(view.len + 14 * max(0, min(count, view.len // MIN_RECORD_BYTES + 1)) + 1)
        if out == NULL:
            PyBuffer_Release(&view)
            raise MemoryError
        end = out
        with nogil:
            while number < count:
                start = position
                problem = scan(data, position, view.len, &found)
                if problem:
                    break
                position = found.next
                number += 1
                offset = base_offset + found.offset_delta
                if offset <= self.latest_offset:
                    if found.key_length < 0:
                        keyless += 1
                        continue
                    if offset + 1 < self.find(data + found.key_at, found.key_length, &high, &low).next_offset:
                        continue
                    if found.value_length < 0 and not keep_tombstones:
                        continue
                kept += 1
                if found.value_length < 0:
                    tombstones = True
                record_timestamp = timestamp
                if not append_time:
                    record_timestamp = <int64_t>(<uint64_t>timestamp + <uint64_t>found.timestamp_delta)
                if not based:
                    base = record_timestamp
                    based = True
                if record_timestamp > max_timestamp:
                    max_timestamp = record_timestamp
                end = copy_record(data, start, &found, <int64_t>(<uint64_t>record_timestamp - <uint64_t>base), end)
            if not problem and position != view.len:
                problem = TRAILING
        try:
            return (
                problem,
                number,
                kept,
                keyless,
                tombstones,
                base,
                max_timestamp,
                PyBytes_FromStringAndSize(<const char *>out, end - out),
            )
        finally:
            free(out)
            PyBuffer_Release(&view)


cdef uint8_t *copy_record(
    const uint8_t *data, Py_ssize_t start, Scan *found, int64_t timestamp_delta, uint8_t *out
) noexcept nogil:
    """A record as it is, but for its timestamp."""
    cdef int32_t length
    cdef int64_t old_delta
    cdef Py_ssize_t at = start
    cdef Py_ssize_t rest
    cdef uint8_t attributes
    read_varint32(data, &at, found.next, &length)
    attributes = data[at]
    at += 1
    read_varint64(data, &at, found.next, &old_delta)
    rest = found.next - at
    out = write_varint(out, 1 + varint_size(timestamp_delta) + rest)
    out[0] = attributes
    out = write_varint(out + 1, timestamp_delta)
    memcpy(out, data + at, rest)
    return out + rest
