# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The usual Fetch request read, and its response written, compiled. Twin: `odradek.broker.fast._pyfetch`.

The twin's docstrings are this module's contract; tests hold the two equal. Input comes from strangers: every
read is behind a check against the end of the frame, and nothing is allocated by a number that the input
merely claims.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from odradek._frames cimport (
    Reader,
    put32,
    put64,
    put_uvarint,
    read16,
    read32,
    read64,
    read8,
    read_compact,
    read_count,
    read_no_tags,
    skip_ascii,
)

cdef extern from "Python.h":
    object PyUnicode_DecodeASCII(const char *, Py_ssize_t, const char *)
    const char *PyUnicode_AsUTF8AndSize(object, Py_ssize_t *) except NULL

cdef enum:
    INLINE_BYTES = 8192  # records up to here are copied into the response; beyond, they are buffers of their own


# --- reading ---------------------------------------------------------------------------------------------

def parse_fetch(frame):
    cdef Py_buffer view
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        return _parse(<const uint8_t *>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


cdef object _parse(const uint8_t *data, Py_ssize_t size):
    cdef Reader reader
    cdef Reader *r = &reader
    cdef int32_t version, correlation_id, length, max_wait, min_bytes, max_bytes, isolation
    cdef int32_t session_id = 0, session_epoch = -1, topics, partitions, index, epoch, last_epoch, partition_max
    cdef int64_t offset, log_start
    cdef Py_ssize_t start
    cdef bint flexible
    r.data, r.at, r.end, r.failed = data, 0, size, False
    if read16(r) != 1:
        return None
    version = read16(r)
    if version < 4 or version > 18:
        return None
    flexible = version >= 12
    correlation_id = <int32_t>read32(r)
    length = read16(r)
    if length > 0:
        skip_ascii(r, length)
    elif length < -1:
        return None
    if flexible:
        read_no_tags(r)
    if version < 15 and <int32_t>read32(r) >= 0:
        return None
    max_wait = <int32_t>read32(r)
    min_bytes = <int32_t>read32(r)
    max_bytes = <int32_t>read32(r)
    isolation = read8(r)
    if version >= 7:
        session_id = <int32_t>read32(r)
        session_epoch = <int32_t>read32(r)
    topics = read_count(r, flexible)
    if r.failed:
        return None
    wanted = []
    seen = set() if topics > 1 else None
    while topics > 0:
        topics -= 1
        if version >= 13:
            if r.end - r.at < 16:
                return None
            topic = PyBytes_FromStringAndSize(<const char *>data + r.at, 16)
            r.at += 16
        else:
            length = read_compact(r) if flexible else read16(r)
            start = skip_ascii(r, length)
            if r.failed:
                return None
            topic = PyUnicode_DecodeASCII(<const char *>data + start, length, NULL)
        if seen is not None:
            if topic in seen:
                return None
            seen.add(topic)
        partitions = read_count(r, flexible)
        if r.failed or partitions == 0:
            return None
        parts = []
        while partitions > 0:
            partitions -= 1
            index = <int32_t>read32(r)
            epoch = <int32_t>read32(r) if version >= 9 else -1
            offset = read64(r)
            last_epoch = <int32_t>read32(r) if flexible else -1
            log_start = read64(r) if version >= 5 else -1
            partition_max = <int32_t>read32(r)
            if flexible:
                read_no_tags(r)
            if r.failed or partition_max < 0:
                return None
            parts.append((index, offset, partition_max, epoch, log_start, last_epoch))
        if flexible:
            read_no_tags(r)
        wanted.append((topic, parts))
    if version >= 7 and read_count(r, flexible) != 0:
        return None
    if version >= 11:
        length = read_compact(r) if flexible else read16(r)
        skip_ascii(r, length)
    if flexible:
        read_no_tags(r)
    if r.failed:
        return None
    return (
        version, correlation_id, max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch, wanted
    )


# --- writing ---------------------------------------------------------------------------------------------

cdef inline uint8_t *put_count(uint8_t *p, uint32_t count, bint flexible) noexcept:
    return put_uvarint(p, count + 1) if flexible else put32(p, count)


def encode_fetch(int version, int correlation_id, int session_id, bint committed, list answers):
    cdef bint flexible = version >= 12
    cdef Py_ssize_t room = 48, length, done = 0
    cdef uint8_t *begin
    cdef uint8_t *p
    cdef const char *text
    cdef list parts
    cdef tuple answer
    for topic, partitions in answers:
        room += 32
        if version < 13:
            PyUnicode_AsUTF8AndSize(topic, &length)
            room += length
        parts = <list>partitions
        room += 64 * len(parts)
        for answer in parts:
            records = answer[4]
            if type(records) is bytes and PyBytes_GET_SIZE(records) <= INLINE_BYTES:
                room += PyBytes_GET_SIZE(records)
    # One piece of memory for all that is not records of their own; cut into buffers around those.
    out = PyBytes_FromStringAndSize(NULL, room)
    begin = <uint8_t *>PyBytes_AS_STRING(out)
    p = put32(begin + 4, <uint32_t>correlation_id)
    if flexible:
        p[0] = 0
        p += 1
    p = put32(p, 0)
    if version >= 7:
        p[0] = 0
        p[1] = 0
        p = put32(p + 2, <uint32_t>session_id)
    p = put_count(p, <uint32_t>len(answers), flexible)
    cuts = None
    for topic, partitions in answers:
        parts = <list>partitions
        if version >= 13:
            memcpy(p, PyBytes_AS_STRING(topic), 16)
            p += 16
        else:
            text = PyUnicode_AsUTF8AndSize(topic, &length)
            if flexible:
                p = put_uvarint(p, <uint32_t>length + 1)
            else:
                p[0] = (length >> 8) & 0xFF
                p[1] = length & 0xFF
                p += 2
            memcpy(p, text, length)
            p += length
        p = put_count(p, <uint32_t>len(parts), flexible)
        for answer in parts:
            p = put32(p, <uint32_t><int32_t>answer[0])
            p[0] = 0
            p[1] = 0
            p = put64(p + 2, <int64_t>answer[1])
            p = put64(p, <int64_t>answer[2])
            if version >= 5:
                p = put64(p, <int64_t>answer[3])
            if flexible:
                p[0] = 1 if committed else 0
                p += 1
            else:
                p = put32(p, 0 if committed else 0xFFFFFFFF)
            if version >= 11:
                p = put32(p, 0xFFFFFFFF)
            records = answer[4]
            length = len(records)
            p = put_count(p, <uint32_t>length, flexible)
            if length <= INLINE_BYTES and type(records) is bytes:
                memcpy(p, PyBytes_AS_STRING(records), length)
                p += length
            else:
                if cuts is None:
                    cuts = []
                cuts.append((p - begin, records))
            if flexible:
                p[0] = 0
                p += 1
        if flexible:
            p[0] = 0
            p += 1
    if flexible:
        p[0] = 0
        p += 1
    length = p - begin
    if cuts is None:
        put32(begin, <uint32_t>(length - 4))
        return [out[:length]]
    for at, records in cuts:
        length += len(records)
    put32(begin, <uint32_t>(length - 4))
    buffers = []
    whole = memoryview(out)
    for at, records in cuts:
        buffers.append(whole[done:at])
        buffers.append(records)
        done = at
    if done < p - begin:
        buffers.append(whole[done : p - begin])
    return buffers
