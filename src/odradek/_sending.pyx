# cython: language_level=3
"""A range of a file sent into a socket, compiled. Twin: `odradek.broker.network._pysending`, whose docstring is the
contract; tests hold the two equal.

What this gains is the interpreter's lock: given back once per range, not twice per piece that the socket takes.
"""

from libc.errno cimport EAGAIN, EINTR, errno


cdef extern from "sys/types.h" nogil:
    ctypedef long long off_t

cdef extern from "sys/sendfile.h" nogil:
    ssize_t sendfile(int out, int source, off_t *offset, size_t count)

cdef extern from "poll.h" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    int poll(pollfd *fds, unsigned long count, int timeout_ms)
    short POLLOUT


def send_range(int out, int file, off_t position, long long size, int patience_ms):
    cdef:
        long long left = size
        ssize_t count
        int error = 0
        pollfd room
    room.fd = out
    room.events = POLLOUT
    with nogil:
        while left > 0:
            count = sendfile(out, file, &position, left)
            if count > 0:
                left -= count
                continue
            if count == 0:
                break
            error = errno
            if error == EINTR:
                error = 0
                continue
            if error != EAGAIN or patience_ms == 0:
                break
            room.revents = 0
            if poll(&room, 1, patience_ms) <= 0:
                break
            error = 0
    if error and left == size:
        raise OSError(error, "sendfile")
    return size - left
