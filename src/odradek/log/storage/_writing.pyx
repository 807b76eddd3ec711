# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A record batch given its place in a log while it is written, compiled. Twin: `odradek.log.storage._pywriting`,
whose docstring is the contract; tests hold the two equal.

What this gains are the objects of a `pwritev`: packed numbers, views of the batch, the sequence of both.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals, PyErr_SetFromErrno
from libc cimport errno
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from odradek.records._batch cimport LEADER_EPOCH_AT, PREFIX_BYTES
from odradek.wire._frames cimport put32, put64

cdef extern from "sys/types.h" nogil:
    ctypedef long long off_t

cdef extern from "sys/uio.h" nogil:
    struct iovec:
        void *iov_base
        size_t iov_len
    ssize_t pwritev(int fd, const iovec *parts, int count, off_t position)

cdef extern from "unistd.h" nogil:
    ssize_t pwrite(int fd, const void *data, size_t size, off_t position)

cdef enum:
    COPIED_BYTES = 2048  # smaller batches are written in one piece, which costs the system less than two


def write_batch(int fd, batch, int64_t position, int64_t base_offset, int32_t leader_epoch):
    cdef:
        Py_buffer view
        uint8_t copy[COPIED_BYTES]
        iovec parts[2]
        ssize_t written
        int error
    PyObject_GetBuffer(batch, &view, PyBUF_SIMPLE)
    try:
        if view.len < PREFIX_BYTES:
            raise ValueError(f"no record batch has {view.len} bytes")
        memcpy(copy, view.buf, view.len if view.len <= COPIED_BYTES else PREFIX_BYTES)
        put64(copy, base_offset)
        put32(copy + LEADER_EPOCH_AT, <unsigned int>leader_epoch)
        parts[0].iov_base = copy
        parts[0].iov_len = PREFIX_BYTES
        parts[1].iov_base = <uint8_t *>view.buf + PREFIX_BYTES
        parts[1].iov_len = view.len - PREFIX_BYTES
        while True:
            with nogil:
                if view.len <= COPIED_BYTES:
                    written = pwrite(fd, copy, view.len, position)
                else:
                    written = pwritev(fd, parts, 2, position)
                error = errno.errno
            if written >= 0:
                return written
            if error != errno.EINTR:
                errno.errno = error
                PyErr_SetFromErrno(OSError)
            PyErr_CheckSignals()
    finally:
        PyBuffer_Release(&view)
