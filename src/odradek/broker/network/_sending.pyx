# cython: language_level=3
"""Bytes and ranges of files sent into a socket, compiled. Twin: `odradek.broker.network._pysending`, whose docstring is
the contract; tests hold the two equal.

What this gains is the interpreter's lock: given back once for all parts of a response, not twice per piece that
the socket takes. And what stands between two ranges leaves with the second (MSG_MORE).
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport EAGAIN, EINTR, errno
from libc.string cimport memset


cdef extern from "sys/types.h" nogil:
    ctypedef long long off_t

cdef extern from "sys/sendfile.h" nogil:
    ssize_t sendfile(int out, int source, off_t *offset, size_t count)

cdef extern from "sys/socket.h" nogil:
    struct iovec:
        void *iov_base
        size_t iov_len
    struct msghdr:
        iovec *msg_iov
        size_t msg_iovlen
    ssize_t sendmsg(int out, const msghdr *message, int flags)
    int MSG_MORE
    int MSG_NOSIGNAL

cdef extern from "poll.h" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    int poll(pollfd *fds, unsigned long count, int timeout_ms)
    short POLLOUT

cdef enum:
    MOST_PARTS = 64

cdef struct Piece:
    char *data  # NULL: of a file
    int file
    off_t position
    long long size


cdef ssize_t send_run(int out, Piece *pieces, int count, long long most) noexcept nogil:
    """Send the bytes in memory that come first, at most so many; what goes on behind them is worth waiting for."""
    cdef iovec vector[MOST_PARTS]
    cdef msghdr message
    cdef int number = 0
    cdef long long size = 0
    while number < count and pieces[number].data != NULL and size < most:
        vector[number].iov_base = pieces[number].data
        vector[number].iov_len = min(pieces[number].size, most - size)
        size += pieces[number].size
        number += 1
    memset(&message, 0, sizeof(message))
    message.msg_iov = vector
    message.msg_iovlen = number
    return sendmsg(out, &message, MSG_NOSIGNAL | (MSG_MORE if number < count else 0))


cdef int send_pieces(int out, Piece *pieces, int count, long long most, int patience_ms, long long *sent) noexcept nogil:
    """The error that has ended it, or 0."""
    cdef int number = 0
    cdef ssize_t done
    cdef long long left, wanted
    cdef pollfd room
    room.fd = out
    room.events = POLLOUT
    while number < count and sent[0] < most:
        wanted = min(pieces[number].size, most - sent[0])
        if pieces[number].data == NULL:
            done = sendfile(out, pieces[number].file, &pieces[number].position, wanted)
        else:
            done = send_run(out, pieces + number, count - number, most - sent[0])
        if done == 0:
            return 0
        if done < 0 and errno == EINTR:
            continue
        if done < 0 and (errno != EAGAIN or patience_ms == 0):
            return errno
        if done > 0:
            sent[0] += done
            wanted -= done
            while done > 0:
                left = min(pieces[number].size, done)
                pieces[number].size -= left
                if pieces[number].data != NULL:
                    pieces[number].data += left
                done -= left
                if pieces[number].size == 0:
                    number += 1
            if wanted <= 0:
                continue
            if patience_ms == 0:
                return 0
        # The socket is full: to ask it once more, before it has room, would look up pages of the file for nothing.
        room.revents = 0
        if poll(&room, 1, patience_ms) <= 0:
            return EAGAIN
    return 0


def send_parts(int out, parts, long long most, int patience_ms):
    cdef Piece pieces[MOST_PARTS]
    cdef Py_buffer held[MOST_PARTS]
    cdef int holding = 0, count = 0, error
    cdef long long sent = 0
    if len(parts) > MOST_PARTS:
        raise ValueError("too many parts at once")
    try:
        for part in parts:
            if type(part) is tuple:
                pieces[count].data = NULL
                pieces[count].file, pieces[count].position, pieces[count].size = part
            else:
                PyObject_GetBuffer(part, held + holding, PyBUF_SIMPLE)
                pieces[count].data, pieces[count].size = <char *>held[holding].buf, held[holding].len
                holding += 1
            count += 1
        with nogil:
            error = send_pieces(out, pieces, count, most, patience_ms, &sent)
    finally:
        for count in range(holding):
            PyBuffer_Release(held + count)
    if error and not sent:
        raise OSError(error, "nothing could be sent")
    return sent
