# cython: cdivision=True
"""Dates and times of day as text, for the compiled decoders."""

from libc.stdint cimport int64_t, uint8_t


cdef inline int64_t days_of(int64_t year, int64_t month, int64_t day) noexcept nogil:
    """Days since 1970-01-01 in the Gregorian calendar; years are from 1 on."""
    cdef int64_t era
    cdef int64_t year_of_era
    cdef int64_t day_of_year
    if month <= 2:
        year -= 1
    era = year // 400
    year_of_era = year - era * 400
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719468


cdef inline int number_at(const uint8_t *at, int digits) noexcept nogil:
    """A number of so many digits; -1 if they are not."""
    cdef int value = 0
    cdef int i
    for i in range(digits):
        if at[i] < c'0' or at[i] > c'9':
            return -1
        value = value * 10 + at[i] - c'0'
    return value


cdef inline bint read_date(const uint8_t *at, const uint8_t *end, int64_t *days) noexcept nogil:
    """`yyyy-MM-dd`, which has to begin at `at`."""
    cdef int year
    cdef int month
    cdef int day
    cdef int last
    if end - at < 10 or at[4] != c'-' or at[7] != c'-':
        return False
    year = number_at(at, 4)
    month = number_at(at + 5, 2)
    day = number_at(at + 8, 2)
    if year < 1 or month < 1 or month > 12 or day < 1:
        return False
    if month == 2:
        last = 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    elif month == 4 or month == 6 or month == 9 or month == 11:
        last = 30
    else:
        last = 31
    if day > last:
        return False
    days[0] = days_of(year, month, day)
    return True


cdef inline bint read_timestamp(const uint8_t *at, const uint8_t *end, int64_t *micros) noexcept nogil:
    """`yyyy-MM-dd[(T| )HH:mm[:ss[.fraction]][ ][Z|±HH[[:]mm]]]`; without a zone it is UTC, digits after the sixth
    of a second are cut."""
    cdef int64_t days = 0
    cdef int hour
    cdef int minute
    cdef int second = 0
    cdef int64_t fraction = 0
    cdef int digits = 0
    cdef int sign
    cdef int zone_hours
    cdef int zone_minutes = 0
    cdef int64_t zone = 0
    if not read_date(at, end, &days):
        return False
    at += 10
    if at == end:
        micros[0] = days * 86400 * 1000000
        return True
    if (at[0] != c'T' and at[0] != c' ') or end - at < 6 or at[3] != c':':
        return False
    hour = number_at(at + 1, 2)
    minute = number_at(at + 4, 2)
    if hour < 0 or hour > 23 or minute < 0 or minute > 59:
        return False
    at += 6
    if at < end and at[0] == c':':
        if end - at < 3:
            return False
        second = number_at(at + 1, 2)
        if second < 0 or second > 59:
            return False
        at += 3
        if at < end and at[0] == c'.':
            at += 1
            while at < end and c'0' <= at[0] <= c'9':
                if digits < 6:
                    fraction = fraction * 10 + at[0] - c'0'
                digits += 1
                at += 1
            if digits == 0 or digits > 9:
                return False
            while digits < 6:
                fraction *= 10
                digits += 1
    if at < end and at[0] == c' ' and end - at > 1:
        at += 1
    if at < end:
        if at[0] == c'Z':
            at += 1
        elif at[0] == c'+' or at[0] == c'-':
            sign = 1 if at[0] == c'+' else -1
            if end - at < 3:
                return False
            zone_hours = number_at(at + 1, 2)
            at += 3
            if at < end and at[0] == c':':
                at += 1
                if end - at != 2:
                    return False
            if at < end:
                if end - at != 2:
                    return False
                zone_minutes = number_at(at, 2)
                at += 2
            if zone_hours < 0 or zone_hours > 18 or zone_minutes < 0 or zone_minutes > 59:
                return False
            zone = sign * (zone_hours * 60 + zone_minutes)
        if at != end:
            return False
    micros[0] = (((days * 24 + hour) * 60 + minute - zone) * 60 + second) * 1000000 + fraction
    return True
