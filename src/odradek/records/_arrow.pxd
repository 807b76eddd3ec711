# cython: cdivision=True
"""What the compiled modules that read Arrow's arrays share: the bits of validity, and the check of offsets."""

from libc.stdint cimport int32_t, int64_t, uint8_t


cdef inline bint is_valid(const uint8_t *validity, int64_t at) noexcept nogil:
    """Whether there is a value; without bits there always is."""
    return validity == NULL or (validity[at >> 3] >> (at & 7)) & 1


cdef inline int check_validity(Py_buffer *bits, int64_t first, int64_t length) except -1:
    if bits.len * 8 < first + length:
        raise ValueError("the validity bits are too short")
    return 0


cdef inline int check_offsets(Py_buffer *view, int64_t first, int64_t length, int64_t end) except -1:
    """Raise `ValueError` unless the offsets of all rows are there, rise, and stay between 0 and `end`."""
    cdef const int32_t *offsets = <const int32_t *>view.buf
    cdef int64_t i
    cdef int64_t last
    cdef bint bad
    if length == 0:
        return 0
    if view.len < 4 * (first + length + 1):
        raise ValueError("the offsets are too short")
    with nogil:
        last = offsets[first]
        bad = last < 0
        for i in range(first + 1, first + length + 1):
            if offsets[i] < last:
                bad = True
                break
            last = offsets[i]
    if bad or last > end:
        raise ValueError("the offsets do not fit the data")
    return 0
