# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""JSON (RFC 8259) straight into a tree of Arrow columns. Twin: `odradek.spark.formats._pyjson`, whose docstrings are
the contract; tests hold the two equal.

One pass: what no column wants is skipped, and still has to be JSON.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from odradek.records._growing cimport Bytes, clear, leave, reserve
from odradek.spark.formats._times cimport read_date, read_timestamp
from odradek.spark.formats._tree cimport (
    BAD_BASE64, BAD_MAGIC, BAD_NUMBER, BAD_TIME, BINARY, BOOL, DATE, DECIMAL, DEEPEST, DOUBLE, DURATION, FLOAT,
    LIST, MAP, NOT_UTF8, OUT_OF_MEMORY, OUT_OF_RANGE, STRING, STRUCT, SYNTAX, TIMESTAMP, TOO_DEEP, TRAILING,
    TRUNCATED, WRONG_KIND, Node, Records, Tree, end_bytes, end_list, int128, is_utf8, make_null, mark,
    push_bytes, push_decimal, push_double, push_float, push_int32, push_int64, push_int8, push_integer, push_null,
    truncate,
)

cdef extern from "Python.h":
    double PyOS_string_to_double(const char *, char **, void *) except? -1.0

cdef extern from *:
    """
    static const double odradek_powers[23] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12,
        1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    """
    const double odradek_powers[23]

cdef struct Text:
    const uint8_t *start
    const uint8_t *at
    const uint8_t *end
    Node *where
    Bytes scratch

cdef struct Number:
    # What stands in the text: (-1)**negative * digits * 10**exponent, where `exact` says that all digits are in it.
    bint negative
    bint whole
    bint exact
    int128 digits
    int64_t exponent


cdef inline void blanks(Text *text) noexcept nogil:
    while text.at < text.end and (text.at[0] == c' ' or text.at[0] == c'\n' or text.at[0] == c'\r'
                                  or text.at[0] == c'\t'):
        text.at += 1


cdef inline int word(Text *text, const char *wanted, Py_ssize_t length) noexcept nogil:
    """Pass one of the three words."""
    if text.end - text.at < length:
        return TRUNCATED if memcmp(text.at, wanted, text.end - text.at) == 0 else SYNTAX
    if memcmp(text.at, wanted, length) != 0:
        return SYNTAX
    text.at += length
    return 0


cdef inline const uint8_t *plain(const uint8_t *at, const uint8_t *end, bint *ascii) noexcept nogil:
    """The first quote, backslash or control character from `at` on."""
    cdef uint64_t word
    cdef uint64_t quote
    cdef uint64_t slash
    cdef uint64_t high = 0
    cdef uint64_t ones = 0x0101010101010101
    cdef uint64_t tops = 0x8080808080808080
    while end - at >= 8:
        memcpy(&word, at, 8)
        quote = word ^ (ones * 0x22)
        slash = word ^ (ones * 0x5C)
        if (((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((word - ones * 0x20) & ~word)) & tops:
            break
        high |= word & tops
        at += 8
    while at < end and at[0] != c'"' and at[0] != c'\\' and at[0] >= 0x20:
        high |= at[0] & 0x80
        at += 1
    if high:
        ascii[0] = False
    return at


cdef inline int hex4(Text *text, uint32_t *value) noexcept nogil:
    cdef int i
    cdef uint8_t c
    if text.end - text.at < 4:
        return TRUNCATED
    value[0] = 0
    for i in range(4):
        c = text.at[i]
        if c'0' <= c <= c'9':
            c -= c'0'
        elif c'a' <= c <= c'f':
            c -= c'a' - 10
        elif c'A' <= c <= c'F':
            c -= c'A' - 10
        else:
            return SYNTAX
        value[0] = value[0] << 4 | c
    text.at += 4
    return 0


cdef int escape(Text *text, Bytes *out) noexcept nogil:
    """What is behind a backslash; room for four bytes is there."""
    cdef uint32_t code = 0
    cdef uint32_t low = 0
    cdef uint8_t c
    cdef int problem
    if text.at == text.end:
        return TRUNCATED
    c = text.at[0]
    text.at += 1
    if c == c'u':
        problem = hex4(text, &code)
        if problem:
            return problem
        if 0xD800 <= code < 0xE000:
            # A half of a character; Arrow's strings cannot hold one alone.
            if code >= 0xDC00:
                return NOT_UTF8
            if text.end - text.at < 2:
                return TRUNCATED
            if text.at[0] != c'\\' or text.at[1] != c'u':
                return NOT_UTF8
            text.at += 2
            problem = hex4(text, &low)
            if problem:
                return problem
            if not 0xDC00 <= low < 0xE000:
                return NOT_UTF8
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
        if code < 0x80:
            out.memory[out.size] = <uint8_t>code
            out.size += 1
        elif code < 0x800:
            out.memory[out.size] = <uint8_t>(0xC0 | code >> 6)
            out.memory[out.size + 1] = <uint8_t>(0x80 | (code & 0x3F))
            out.size += 2
        elif code < 0x10000:
            out.memory[out.size] = <uint8_t>(0xE0 | code >> 12)
            out.memory[out.size + 1] = <uint8_t>(0x80 | (code >> 6 & 0x3F))
            out.memory[out.size + 2] = <uint8_t>(0x80 | (code & 0x3F))
            out.size += 3
        else:
            out.memory[out.size] = <uint8_t>(0xF0 | code >> 18)
            out.memory[out.size + 1] = <uint8_t>(0x80 | (code >> 12 & 0x3F))
            out.memory[out.size + 2] = <uint8_t>(0x80 | (code >> 6 & 0x3F))
            out.memory[out.size + 3] = <uint8_t>(0x80 | (code & 0x3F))
            out.size += 4
        return 0
    if c == c'"' or c == c'\\' or c == c'/':
        pass
    elif c == c'n':
        c = 10
    elif c == c't':
        c = 9
    elif c == c'r':
        c = 13
    elif c == c'b':
        c = 8
    elif c == c'f':
        c = 12
    else:
        return SYNTAX
    out.memory[out.size] = c
    out.size += 1
    return 0


cdef int unescape(Text *text, Bytes *out) noexcept nogil:
    """Add a string's characters to `out`; `at` is behind the opening quote, and then behind the closing one."""
    cdef Py_ssize_t begin = out.size
    cdef const uint8_t *stop
    cdef bint ascii = True
    cdef int problem
    while True:
        stop = plain(text.at, text.end, &ascii)
        if reserve(out, stop - text.at + 4):
            return OUT_OF_MEMORY
        memcpy(out.memory + out.size, text.at, stop - text.at)
        out.size += stop - text.at
        text.at = stop
        if stop == text.end:
            return TRUNCATED
        if stop[0] == c'"':
            text.at += 1
            break
        if stop[0] != c'\\':
            return SYNTAX
        text.at += 1
        problem = escape(text, out)
        if problem:
            return problem
    if not ascii and not is_utf8(out.memory + begin, out.size - begin):
        return NOT_UTF8
    return 0


cdef int pass_string(Text *text) noexcept nogil:
    """Pass a string that nobody wants, from behind its opening quote."""
    cdef bint ascii = True
    cdef int problem
    cdef const uint8_t *begin = text.at
    while True:
        text.at = plain(text.at, text.end, &ascii)
        if text.at == text.end:
            return TRUNCATED
        if text.at[0] == c'"':
            text.at += 1
            break
        if text.at[0] != c'\\':
            return SYNTAX
        text.at += 1
        text.scratch.size = 0
        if reserve(&text.scratch, 4):
            return OUT_OF_MEMORY
        problem = escape(text, &text.scratch)
        if problem:
            return problem
    if not ascii and not is_utf8(begin, text.at - begin):
        return NOT_UTF8
    return 0


cdef int pass_digits(Text *text) noexcept nogil:
    cdef const uint8_t *begin = text.at
    while text.at < text.end and c'0' <= text.at[0] <= c'9':
        text.at += 1
    if text.at == begin:
        return TRUNCATED if text.at == text.end else SYNTAX
    return 0


cdef int pass_number(Text *text) noexcept nogil:
    cdef int problem
    if text.at[0] == c'-':
        text.at += 1
    if text.at < text.end and text.at[0] == c'0':
        text.at += 1
    else:
        problem = pass_digits(text)
        if problem:
            return problem
    if text.at < text.end and text.at[0] == c'.':
        text.at += 1
        problem = pass_digits(text)
        if problem:
            return problem
    if text.at < text.end and text.at[0] | 0x20 == c'e':
        text.at += 1
        if text.at < text.end and (text.at[0] == c'+' or text.at[0] == c'-'):
            text.at += 1
        return pass_digits(text)
    return 0


cdef int pass_value(Text *text, int depth) noexcept nogil:
    """Pass a value that nobody wants."""
    cdef int problem
    cdef uint8_t c
    blanks(text)
    if text.at == text.end:
        return TRUNCATED
    c = text.at[0]
    if c == c'"':
        text.at += 1
        return pass_string(text)
    if c == c'{' or c == c'[':
        if depth == DEEPEST:
            return TOO_DEEP
        text.at += 1
        blanks(text)
        if text.at < text.end and text.at[0] == c + 2:
            text.at += 1
            return 0
        while True:
            if c == c'{':
                blanks(text)
                if text.at == text.end:
                    return TRUNCATED
                if text.at[0] != c'"':
                    return SYNTAX
                text.at += 1
                problem = pass_string(text)
                if problem == 0:
                    problem = colon(text)
                if problem:
                    return problem
            problem = pass_value(text, depth + 1)
            if problem:
                return problem
            blanks(text)
            if text.at == text.end:
                return TRUNCATED
            if text.at[0] == c + 2:
                text.at += 1
                return 0
            if text.at[0] != c',':
                return SYNTAX
            text.at += 1
    if c == c't':
        return word(text, b"true", 4)
    if c == c'f':
        return word(text, b"false", 5)
    if c == c'n':
        return word(text, b"null", 4)
    if c == c'-' or c'0' <= c <= c'9':
        return pass_number(text)
    return SYNTAX


cdef inline int colon(Text *text) noexcept nogil:
    blanks(text)
    if text.at == text.end:
        return TRUNCATED
    if text.at[0] != c':':
        return SYNTAX
    text.at += 1
    return 0


cdef int read_number(const uint8_t *at, const uint8_t *end, Number *number) noexcept nogil:
    """The number that is all of the bytes, which may be any text."""
    cdef int digits = 0
    cdef int64_t exponent = 0
    cdef bint below = False
    cdef bint any = False
    number.negative = False
    number.whole = True
    number.exact = True
    number.digits = 0
    number.exponent = 0
    if at < end and (at[0] == c'-' or at[0] == c'+'):
        number.negative = at[0] == c'-'
        at += 1
    while at < end:
        if c'0' <= at[0] <= c'9':
            any = True
            if digits < 38:
                number.digits = number.digits * 10 + (at[0] - c'0')
                if number.digits:
                    digits += 1
                if below:
                    number.exponent -= 1
            else:
                if at[0] != c'0':
                    number.exact = False
                if not below:
                    number.exponent += 1
        elif at[0] == c'.' and not below:
            below = True
            number.whole = False
        else:
            break
        at += 1
    if not any:
        return BAD_NUMBER
    if at < end and at[0] | 0x20 == c'e':
        number.whole = False
        at += 1
        below = False
        if at < end and (at[0] == c'-' or at[0] == c'+'):
            below = at[0] == c'-'
            at += 1
        if at == end:
            return BAD_NUMBER
        while at < end and c'0' <= at[0] <= c'9':
            if exponent < 100000:
                exponent = exponent * 10 + (at[0] - c'0')
            at += 1
        number.exponent += -exponent if below else exponent
    return 0 if at == end else BAD_NUMBER


cdef int slow_double(const uint8_t *at, const uint8_t *end, double *value) noexcept with gil:
    """As Python reads it, correctly rounded."""
    cdef bytes text = at[:end - at]
    try:
        value[0] = PyOS_string_to_double(text, NULL, NULL)
    except ValueError:
        return BAD_NUMBER
    return 0


cdef int to_double(const uint8_t *at, const uint8_t *end, Number *number, double *value) noexcept nogil:
    if number.exact and number.digits <= (<int128>1 << 53) and -22 <= number.exponent <= 22:
        # Both are exact as doubles, so one operation rounds correctly.
        value[0] = <double>number.digits
        if number.exponent < 0:
            value[0] /= odradek_powers[-number.exponent]
        else:
            value[0] *= odradek_powers[number.exponent]
        if number.negative:
            value[0] = -value[0]
        return 0
    return slow_double(at, end, value)


cdef int push_number(Node *node, const uint8_t *at, const uint8_t *end) noexcept nogil:
    """The number that is all of the bytes into a column of numbers or times."""
    cdef Number number
    cdef double real = 0
    cdef int kind = node.kind
    cdef int problem
    cdef int64_t value
    cdef const uint8_t *digit = at
    if kind != DOUBLE and kind != FLOAT and kind != DECIMAL and end - at < 19:
        # Short and whole, as most are.
        value = 0
        if digit[0] == c'-':
            digit += 1
        while digit < end and c'0' <= digit[0] <= c'9':
            value = value * 10 + (digit[0] - c'0')
            digit += 1
        if digit == end:
            return push_integer(node, -value if at[0] == c'-' else value)
    problem = read_number(at, end, &number)
    if problem:
        return problem
    if kind == DOUBLE or kind == FLOAT:
        problem = to_double(at, end, &number, &real)
        if problem:
            return problem
        return push_double(node, real) if kind == DOUBLE else push_float(node, <float>real)
    if kind == DECIMAL:
        if number.digits == 0:
            return push_decimal(node, 0, 0)
        if number.exponent > 76 or number.exponent < -1000:
            return OUT_OF_RANGE if number.exponent > 0 else push_decimal(node, 0, 0)
        return push_power(node, &number)
    if not number.whole:
        return WRONG_KIND
    if not number.exact or number.exponent or number.digits > <int128>0x7FFFFFFFFFFFFFFF + number.negative:
        return OUT_OF_RANGE
    return push_integer(node, <int64_t>(-number.digits if number.negative else number.digits))


cdef inline int push_power(Node *node, Number *number) noexcept nogil:
    return push_decimal(node, -number.digits if number.negative else number.digits, <int>-number.exponent)


cdef int push_special(Node *node, const uint8_t *at, Py_ssize_t length) noexcept nogil:
    """A string in a column of `float` or `double`: the numbers that JSON has no other way to write."""
    cdef double value
    cdef bint negative = length > 0 and at[0] == c'-'
    if length > 0 and (at[0] == c'-' or at[0] == c'+'):
        at += 1
        length -= 1
    if length == 8 and memcmp(at, b"Infinity", 8) == 0 or length == 3 and memcmp(at, b"INF", 3) == 0:
        value = 1e308 * 10
        value = -value if negative else value
    elif length == 3 and memcmp(at, b"NaN", 3) == 0 and not negative:
        value = 1e308 * 10
        value = value - value
    else:
        return WRONG_KIND
    return push_double(node, value) if node.kind == DOUBLE else push_float(node, <float>value)


cdef inline int sextet(uint8_t c) noexcept nogil:
    if c'A' <= c <= c'Z':
        return c - c'A'
    if c'a' <= c <= c'z':
        return c - c'a' + 26
    if c'0' <= c <= c'9':
        return c - c'0' + 52
    if c == c'+' or c == c'-':
        return 62
    if c == c'/' or c == c'_':
        return 63
    return -1


cdef int push_base64(Node *node, const uint8_t *at, Py_ssize_t length) noexcept nogil:
    """Base64 (RFC 4648) in either alphabet, its padding there or left out."""
    cdef uint32_t bits = 0
    cdef int held = 0
    cdef int value
    cdef Py_ssize_t i
    cdef Py_ssize_t padding = 0
    while padding < 2 and length > 0 and at[length - 1] == c'=':
        length -= 1
        padding += 1
    if length % 4 == 1 or (padding and (length + padding) % 4):
        return BAD_BASE64
    if reserve(&node.values, length):
        return OUT_OF_MEMORY
    for i in range(length):
        value = sextet(at[i])
        if value < 0:
            return BAD_BASE64
        bits = bits << 6 | <uint32_t>value
        held += 6
        if held >= 8:
            held -= 8
            node.values.memory[node.values.size] = <uint8_t>(bits >> held)
            node.values.size += 1
    if bits & ((1 << held) - 1):
        return BAD_BASE64
    return end_bytes(node)


cdef int push_string(Text *text, Node *node) noexcept nogil:
    """A string, from behind its opening quote, into a column of any kind."""
    cdef int problem
    cdef int64_t value = 0
    cdef Bytes *held = &text.scratch
    if node.kind == STRING:
        problem = unescape(text, &node.values)
        return problem if problem else end_bytes(node)
    held.size = 0
    problem = unescape(text, held)
    if problem:
        return problem
    if node.kind == BINARY:
        return push_base64(node, held.memory, held.size)
    if node.kind == DATE:
        if not read_date(held.memory, held.memory + held.size, &value) or held.size != 10:
            return BAD_TIME
        return push_int32(node, <int32_t>value)
    if node.kind == TIMESTAMP:
        if not read_timestamp(held.memory, held.memory + held.size, &value):
            return BAD_TIME
        return push_int64(node, value)
    if node.kind == DECIMAL:
        return push_number(node, held.memory, held.memory + held.size)
    if node.kind == DOUBLE or node.kind == FLOAT:
        return push_special(node, held.memory, held.size)
    return WRONG_KIND


cdef int push_array(Text *text, Node *node, int depth) noexcept nogil:
    """The elements of an array, from behind its bracket."""
    cdef int problem
    blanks(text)
    if text.at < text.end and text.at[0] == c']':
        text.at += 1
        return end_list(node)
    while True:
        problem = push_value(text, node.children[0], depth + 1)
        if problem:
            return problem
        blanks(text)
        if text.at == text.end:
            return TRUNCATED
        if text.at[0] == c']':
            text.at += 1
            return end_list(node)
        if text.at[0] != c',':
            return SYNTAX
        text.at += 1


cdef Node *wanted(Node *node, const uint8_t *name, Py_ssize_t length, int *guess) noexcept nogil:
    """The column of that name; members come in the same order most of the time."""
    cdef int i
    cdef Node *child
    if guess[0] < node.count:
        child = node.children[guess[0]]
        if child.name_length == length and memcmp(child.name, name, length) == 0:
            guess[0] += 1
            return child
    for i in range(node.count):
        child = node.children[i]
        if child.name_length == length and memcmp(child.name, name, length) == 0:
            guess[0] = i + 1
            return child
    return NULL


cdef int push_object(Text *text, Node *node, int depth) noexcept nogil:
    """The members of an object, from behind its brace, into a struct or a map."""
    cdef const uint8_t *name
    cdef const uint8_t *stop
    cdef Py_ssize_t length
    cdef bint ascii
    cdef int problem
    cdef int guess = 0
    cdef int i
    cdef int64_t row = node.rows
    cdef Node *child
    blanks(text)
    if text.at < text.end and text.at[0] == c'}':
        text.at += 1
    else:
        while True:
            blanks(text)
            if text.at == text.end:
                return TRUNCATED
            if text.at[0] != c'"':
                return SYNTAX
            text.at += 1
            if node.kind == MAP:
                text.where = node.children[0]
                problem = unescape(text, &node.children[0].values)
                if problem == 0:
                    problem = end_bytes(node.children[0])
                if problem:
                    return problem
                child = node.children[1]
            else:
                name = text.at
                ascii = True
                stop = plain(text.at, text.end, &ascii)
                if stop < text.end and stop[0] == c'"' and ascii:
                    length = stop - name
                    text.at = stop + 1
                else:
                    text.scratch.size = 0
                    problem = unescape(text, &text.scratch)
                    if problem:
                        return problem
                    name = text.scratch.memory
                    length = text.scratch.size
                child = wanted(node, name, length, &guess)
            problem = colon(text)
            if problem:
                return problem
            if child == NULL:
                problem = pass_value(text, depth + 1)
            else:
                if node.kind == STRUCT and child.rows > row:
                    # The name is there twice: the last one counts.
                    truncate(child, row)
                problem = push_value(text, child, depth + 1)
            if problem:
                return problem
            blanks(text)
            if text.at == text.end:
                return TRUNCATED
            if text.at[0] == c'}':
                text.at += 1
                break
            if text.at[0] != c',':
                return SYNTAX
            text.at += 1
    if node.kind == MAP:
        return end_list(node)
    for i in range(node.count):
        if node.children[i].rows == row and push_null(node.children[i]):
            return OUT_OF_MEMORY
    return mark(node, 1)


cdef int push_value(Text *text, Node *node, int depth) noexcept nogil:
    """One value into one column."""
    cdef const uint8_t *begin
    cdef int problem
    cdef uint8_t c
    blanks(text)
    text.where = node
    if text.at == text.end:
        return TRUNCATED
    if depth > DEEPEST:
        return TOO_DEEP
    c = text.at[0]
    if c == c'n':
        problem = word(text, b"null", 4)
        return problem if problem else push_null(node)
    if c == c'"':
        text.at += 1
        return push_string(text, node)
    if node.kind == STRING:
        # What is not a string, as it is written.
        begin = text.at
        problem = pass_value(text, depth)
        return problem if problem else push_bytes(node, begin, text.at - begin)
    if c == c'{':
        if node.kind != STRUCT and node.kind != MAP:
            return WRONG_KIND
        text.at += 1
        return push_object(text, node, depth)
    if c == c'[':
        if node.kind != LIST:
            return WRONG_KIND
        text.at += 1
        return push_array(text, node, depth)
    if c == c't' or c == c'f':
        problem = word(text, b"true", 4) if c == c't' else word(text, b"false", 5)
        if problem:
            return problem
        return push_int8(node, c == c't') if node.kind == BOOL else WRONG_KIND
    if c != c'-' and not c'0' <= c <= c'9':
        return SYNTAX
    begin = text.at
    problem = pass_number(text)
    if problem:
        return problem
    if not node.width or node.kind == BOOL or node.kind == DATE or node.kind == DURATION:
        return WRONG_KIND
    return push_number(node, begin, text.at)


cdef int push_document(Text *text, Node *node) noexcept nogil:
    cdef int problem = push_value(text, node, 0)
    if problem:
        return problem
    blanks(text)
    if text.at != text.end:
        text.where = node
        return TRAILING
    return 0


def decode_json(Tree tree not None, Records records not None, int64_t start, bint framed):
    """See the twin."""
    cdef Text text
    cdef int64_t row
    cdef int64_t rows = records.length
    cdef int64_t first = tree.root.rows
    cdef int problem
    cdef int64_t taken = 0
    problems = []
    leave(&text.scratch)
    try:
        for row in range(start, rows):
            if records.is_null(row):
                if push_null(tree.root):
                    raise MemoryError
                continue
            text.start = records.start(row)
            text.at = text.start
            text.end = records.end(row)
            text.where = tree.root
            if framed and (text.end - text.at < 5 or text.at[0] != 0):
                problem = BAD_MAGIC
            else:
                if framed:
                    text.at += 5
                with nogil:
                    problem = push_document(&text, tree.root)
            if problem:
                make_null(tree.root, first + row - start, problem)
                problems.append((row, problem, text.at - text.start, text.where.number))
    finally:
        clear(&text.scratch)
    return problems
