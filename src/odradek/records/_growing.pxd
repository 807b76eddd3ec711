# cython: cdivision=True
"""Bytes that grow, which the compiled modules share. The memory is `malloc`'s, and its owner calls `clear`."""

from libc.stdint cimport uint8_t
from libc.stdlib cimport free, realloc

cdef extern from "Python.h":
    Py_ssize_t PY_SSIZE_T_MAX

cdef enum:
    LEAST_CAPACITY = 64

cdef struct Bytes:
    # size <= capacity, the bytes that `memory` has room for; NULL has room for none.
    uint8_t *memory
    Py_ssize_t size
    Py_ssize_t capacity


cdef inline int grow(Bytes *buffer, Py_ssize_t more) noexcept nogil:
    """Make room: the rare half of `reserve`: apart, so that hot loops have only the other inlined."""
    cdef Py_ssize_t capacity = LEAST_CAPACITY
    cdef void *grown
    if more > PY_SSIZE_T_MAX - buffer.size:
        return -1
    if buffer.capacity > PY_SSIZE_T_MAX // 2:
        capacity = PY_SSIZE_T_MAX
    elif capacity < buffer.capacity * 2:
        capacity = buffer.capacity * 2
    if capacity < buffer.size + more:
        capacity = buffer.size + more
    grown = realloc(buffer.memory, capacity)
    if grown == NULL:
        return -1
    buffer.memory = <uint8_t *>grown
    buffer.capacity = capacity
    return 0


cdef inline int reserve(Bytes *buffer, Py_ssize_t more) noexcept nogil:
    """Make room for `more` bytes after `size`; returns 0, or -1 without memory, and nothing done."""
    return 0 if buffer.capacity - buffer.size >= more else grow(buffer, more)


cdef inline void shrink(Bytes *buffer) noexcept nogil:
    """Give back what is not needed, where that is much: the bytes may be kept for long."""
    cdef Py_ssize_t capacity = buffer.size if buffer.size else 1
    cdef void *shrunk
    if buffer.capacity - buffer.size > 4096 + (buffer.size >> 1):
        shrunk = realloc(buffer.memory, capacity)
        if shrunk != NULL:
            buffer.memory = <uint8_t *>shrunk
            buffer.capacity = capacity


cdef inline void leave(Bytes *buffer) noexcept nogil:
    """Empty a buffer whose memory has another owner now, or none yet."""
    buffer.memory = NULL
    buffer.size = 0
    buffer.capacity = 0


cdef inline void clear(Bytes *buffer) noexcept nogil:
    """Empty a buffer, and free its memory."""
    free(buffer.memory)
    leave(buffer)
