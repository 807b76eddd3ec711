"""Records that a walk refuses, which the kernels of batches and of message sets share."""

from libc.stdint cimport int64_t

from odradek.records._growing cimport Bytes, reserve

cdef struct Refused:
    int64_t index
    int64_t timestamp
    int why


cdef inline int refuse(Bytes *refused, int64_t most, int64_t index, int why, int64_t timestamp) noexcept nogil:
    """Note a record, unless there are `most` already; returns 0, or -1 without memory for it."""
    cdef Refused *record
    if refused.size // <Py_ssize_t>sizeof(Refused) >= most:
        return 0
    if reserve(refused, sizeof(Refused)):
        return -1
    record = <Refused *>(refused.memory + refused.size)
    record.index = index
    record.timestamp = timestamp
    record.why = why
    refused.size += sizeof(Refused)
    return 0


cdef inline list list_refused(Bytes *refused):
    """Return (index, why, timestamp) of each."""
    cdef Refused *records = <Refused *>refused.memory
    cdef Py_ssize_t i
    return [
        (records[i].index, records[i].why, records[i].timestamp)
        for i in range(refused.size // <Py_ssize_t>sizeof(Refused))
    ]
