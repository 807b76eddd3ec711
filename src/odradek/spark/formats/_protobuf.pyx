# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Protocol buffers straight into a tree of Arrow columns. Twin: `odradek.spark.formats._pyprotobuf`, whose docstrings
are the contract; tests hold the two equal.

A plan is a message type laid over the columns (`spark/formats/protobuf_plan.py`): messages, each with the fields that
columns want. Other fields are skipped. What a field means that is there twice, or in two pieces, is protobuf's rule:
the last scalar counts, messages are merged, of a `oneof` the last member counts.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from odradek.spark.formats._tree cimport (
    BAD_LENGTH, BAD_MAGIC, BAD_TAG, BINARY, BOOL, DECIMAL, DEEPEST, DOUBLE, DURATION, FLOAT, INT32, INT64, LIST,
    MAP, MISSING_FIELD, OUT_OF_MEMORY, STRING, STRUCT, TIMESTAMP, TOO_DEEP, TOO_LARGE, TRUNCATED, UNRESOLVED,
    Node, Records, Tree, end_list, int128, make_null, mark, push_bytes, push_decimal, push_double, push_float,
    push_int8, push_integer, push_null, push_scaled, push_text, truncate,
)

cdef enum:
    # Types of fields: `protobuf_types.py` has the same. Up to ENUM they are varints.
    P_INT32 = 1
    P_INT64 = 2
    P_UINT32 = 3
    P_UINT64 = 4
    P_SINT32 = 5
    P_SINT64 = 6
    P_BOOL = 7
    P_ENUM = 8
    P_FIXED32 = 9
    P_SFIXED32 = 10
    P_FLOAT = 11
    P_FIXED64 = 12
    P_SFIXED64 = 13
    P_DOUBLE = 14
    P_STRING = 15
    P_BYTES = 16
    P_MESSAGE = 17
    P_STAMP = 18
    P_SPAN = 19
    P_ENTRY = 20

cdef enum:
    NULL_IF_ABSENT = 0
    ZERO_IF_ABSENT = 1
    REQUIRED = 2

cdef enum:
    MERGED_BYTES = 67108864

cdef struct Piece:
    const uint8_t *data
    Py_ssize_t length

cdef struct Field:
    uint32_t number
    int type
    bint repeated
    int absent
    int oneof
    bint closed
    Node *node
    Message *message
    int symbol_count
    int32_t *symbols
    Piece *names

cdef struct Message:
    Node *node
    int count
    Field *fields

cdef struct Merged:
    Merged *next

cdef struct Input:
    const uint8_t *at
    const uint8_t *end
    Node *where
    Merged *merged
    Py_ssize_t merged_bytes


cdef inline int read_varint(Input *input, uint64_t *value) noexcept nogil:
    """Of up to ten bytes; bits above the 64th are dropped, as protobuf does."""
    cdef uint64_t raw = 0
    cdef int shift = 0
    cdef uint8_t c
    while shift < 70:
        if input.at == input.end:
            return TRUNCATED
        c = input.at[0]
        input.at += 1
        if shift < 64:
            raw |= <uint64_t>(c & 0x7F) << shift
        if c < 0x80:
            value[0] = raw
            return 0
        shift += 7
    return BAD_LENGTH


cdef inline int read_length(Input *input, Py_ssize_t *length) noexcept nogil:
    cdef uint64_t value = 0
    cdef int problem = read_varint(input, &value)
    if problem:
        return problem
    if value > <uint64_t>(input.end - input.at):
        return TRUNCATED
    length[0] = <Py_ssize_t>value
    return 0


cdef int skip(Input *input, uint32_t number, int wire, int depth) noexcept nogil:
    """Pass a field that nobody wants."""
    cdef uint64_t value = 0
    cdef Py_ssize_t length = 0
    cdef int problem
    if wire == 0:
        return read_varint(input, &value)
    if wire == 1 or wire == 5:
        length = 8 if wire == 1 else 4
        if input.end - input.at < length:
            return TRUNCATED
        input.at += length
        return 0
    if wire == 2:
        problem = read_length(input, &length)
        input.at += length
        return problem
    if wire != 3:
        return BAD_TAG
    if depth > DEEPEST:
        return TOO_DEEP
    while True:
        problem = read_varint(input, &value)
        if problem:
            return problem
        if value >> 32 or value >> 3 == 0:
            return BAD_TAG
        if value & 7 == 4:
            return 0 if value >> 3 == number else BAD_TAG
        problem = skip(input, <uint32_t>(value >> 3), value & 7, depth + 1)
        if problem:
            return problem


cdef inline int64_t zigzag(uint64_t raw) noexcept nogil:
    return <int64_t>(raw >> 1) ^ -<int64_t>(raw & 1)


cdef int push_symbol(Field *field, Node *node, int32_t value) noexcept nogil:
    """An enum's name; of an unknown number its digits."""
    cdef int i
    cdef uint8_t digits[12]
    cdef int at = 12
    cdef uint32_t left
    for i in range(field.symbol_count):
        if field.symbols[i] == value:
            return push_bytes(node, field.names[i].data, field.names[i].length)
    left = <uint32_t>value if value >= 0 else 0 - <uint32_t>value
    while True:
        at -= 1
        digits[at] = c'0' + left % 10
        left //= 10
        if left == 0:
            break
    if value < 0:
        at -= 1
        digits[at] = c'-'
    return push_bytes(node, &digits[at], 12 - at)


cdef inline bint known(Field *field, int32_t value) noexcept nogil:
    cdef int i
    for i in range(field.symbol_count):
        if field.symbols[i] == value:
            return True
    return False


cdef inline int wire_of(int type) noexcept nogil:
    if type <= P_ENUM:
        return 0
    if type <= P_FLOAT:
        return 5
    return 1 if type <= P_DOUBLE else 2


cdef int push_varint(Field *field, Node *node, uint64_t raw) noexcept nogil:
    cdef int type = field.type
    if type == P_INT32:
        return push_integer(node, <int32_t><uint32_t>raw)
    if type == P_INT64:
        return push_integer(node, <int64_t>raw)
    if type == P_UINT32:
        return push_integer(node, <int64_t><uint32_t>raw)
    if type == P_UINT64:
        return push_decimal(node, <int128>raw, 0)
    if type == P_SINT32:
        return push_integer(node, <int32_t>zigzag(<uint32_t>raw))
    if type == P_SINT64:
        return push_integer(node, zigzag(raw))
    if type == P_BOOL:
        return push_int8(node, raw != 0)
    return push_symbol(field, node, <int32_t><uint32_t>raw)


cdef int push_scalar(Input *input, Field *field, Node *node) noexcept nogil:
    """One value of a fixed or variable width."""
    cdef uint64_t raw = 0
    cdef uint32_t short_raw = 0
    cdef float real
    cdef double wide
    cdef int problem
    cdef int type = field.type
    if type <= P_ENUM:
        problem = read_varint(input, &raw)
        if problem:
            return problem
        if type == P_ENUM and field.closed and not known(field, <int32_t><uint32_t>raw):
            return 0
        return push_varint(field, node, raw)
    if type <= P_FLOAT:
        if input.end - input.at < 4:
            return TRUNCATED
        memcpy(&short_raw, input.at, 4)
        memcpy(&real, input.at, 4)
        input.at += 4
        if type == P_FLOAT:
            return push_float(node, real)
        return push_integer(node, <int64_t><int32_t>short_raw if type == P_SFIXED32 else <int64_t>short_raw)
    if input.end - input.at < 8:
        return TRUNCATED
    memcpy(&raw, input.at, 8)
    memcpy(&wide, input.at, 8)
    input.at += 8
    if type == P_DOUBLE:
        return push_double(node, wide)
    if type == P_FIXED64:
        return push_decimal(node, <int128>raw, 0)
    return push_integer(node, <int64_t>raw)


cdef int push_moment(Input *input, Node *node) noexcept nogil:
    """google.protobuf.Timestamp or Duration, all of `input`."""
    cdef uint64_t tag = 0
    cdef uint64_t value = 0
    cdef int64_t seconds = 0
    cdef int64_t nanos = 0
    cdef int128 micros
    cdef int problem
    while input.at < input.end:
        problem = read_varint(input, &tag)
        if problem:
            return problem
        if tag >> 32 or tag >> 3 == 0:
            return BAD_TAG
        if tag == 8 or tag == 16:
            problem = read_varint(input, &value)
            if tag == 8:
                seconds = <int64_t>value
            else:
                nanos = <int32_t><uint32_t>value
        else:
            problem = skip(input, <uint32_t>(tag >> 3), tag & 7, 0)
        if problem:
            return problem
    micros = <int128>seconds * 1000000
    if nanos < 0:
        micros -= (-nanos) // 1000
    else:
        micros += nanos // 1000
    if micros != <int64_t>micros:
        return TOO_LARGE
    return push_scaled(node, <int64_t>micros, 1, 1)


cdef int push_part(Input *input, Field *field, Node *node, int depth) noexcept nogil:
    """One value with a length: `input` is all of it."""
    cdef int problem
    cdef Py_ssize_t length = input.end - input.at
    if field.type == P_STRING:
        return push_text(node, input.at, length)
    if field.type == P_BYTES:
        return push_bytes(node, input.at, length)
    if field.type == P_STAMP or field.type == P_SPAN:
        return push_moment(input, node)
    return push_message(input, field.message, depth + 1)


cdef int join(Input *input, Input *part, Node *node) noexcept nogil:
    """Put the earlier message of the same row before `part`."""
    cdef Py_ssize_t length = part.end - part.at
    cdef Py_ssize_t whole = node.span_length + length
    cdef Merged *piece
    cdef uint8_t *data
    if input.merged_bytes + whole > MERGED_BYTES:
        return TOO_LARGE
    piece = <Merged *>malloc(sizeof(Merged) + whole)
    if piece == NULL:
        return OUT_OF_MEMORY
    piece.next = input.merged
    input.merged = piece
    input.merged_bytes += whole
    data = <uint8_t *>(piece + 1)
    memcpy(data, node.span, node.span_length)
    memcpy(data + node.span_length, part.at, length)
    part.at = data
    part.end = data + whole
    return 0


cdef int push_field(Input *input, Message *message, Field *field, int wire, int64_t row, int depth) noexcept nogil:
    """What stands behind the tag of a field that a column wants."""
    cdef Node *node = field.node
    cdef Input part
    cdef Py_ssize_t length = 0
    cdef uint64_t raw = 0
    cdef int problem
    input.where = node
    if wire != 2:
        if field.repeated:
            return push_scalar(input, field, node.children[0])
        if field.type == P_ENUM and field.closed:
            # An unknown number leaves the field as it is.
            part = input[0]
            problem = read_varint(&part, &raw)
            if problem:
                return problem
            if not known(field, <int32_t><uint32_t>raw):
                input.at = part.at
                return 0
        if node.rows > row:
            truncate(node, row)
        clear_others(message, field, row)
        return push_scalar(input, field, node)
    problem = read_length(input, &length)
    if problem:
        return problem
    part.at = input.at
    part.end = input.at + length
    part.where = node
    part.merged = input.merged
    part.merged_bytes = input.merged_bytes
    input.at += length
    if field.type <= P_DOUBLE:
        # Packed.
        while part.at < part.end:
            problem = push_scalar(&part, field, node.children[0])
            if problem:
                return problem
        return 0
    if field.type == P_ENTRY:
        problem = push_message(&part, field.message, depth + 1)
    elif field.repeated:
        problem = push_part(&part, field, node.children[0], depth)
    else:
        clear_others(message, field, row)
        if node.rows > row:
            if field.type >= P_MESSAGE:
                problem = join(input, &part, node)
                part.merged = input.merged
                part.merged_bytes = input.merged_bytes
                if problem:
                    return problem
            truncate(node, row)
        if field.type >= P_MESSAGE:
            node.span = part.at
            node.span_length = part.end - part.at
        problem = push_part(&part, field, node, depth)
    input.merged = part.merged
    input.merged_bytes = part.merged_bytes
    input.where = part.where
    return problem


cdef inline void clear_others(Message *message, Field *field, int64_t row) noexcept nogil:
    """Of a `oneof` the last member counts."""
    cdef int i
    if field.oneof >= 0:
        for i in range(message.count):
            if message.fields[i].oneof == field.oneof and &message.fields[i] != field:
                truncate(message.fields[i].node, row)


cdef int push_absent(Input *input, Field *field, Node *node, int depth) noexcept nogil:
    """A field that is not in the message."""
    cdef Input nothing
    input.where = node
    if field.absent == REQUIRED:
        return MISSING_FIELD
    if field.absent == NULL_IF_ABSENT:
        return push_null(node)
    if field.type == P_STRING or field.type == P_BYTES:
        return push_bytes(node, NULL, 0)
    if field.type == P_ENUM:
        return push_symbol(field, node, field.symbols[0] if field.closed and field.symbol_count else 0)
    if field.type == P_FLOAT:
        return push_float(node, 0)
    if field.type == P_DOUBLE:
        return push_double(node, 0)
    if field.type == P_BOOL:
        return push_int8(node, 0)
    if field.type >= P_MESSAGE:
        nothing.at = nothing.end = NULL
        nothing.where = node
        nothing.merged = NULL
        nothing.merged_bytes = 0
        return push_part(&nothing, field, node, depth)
    return push_integer(node, 0)


cdef int push_message(Input *input, Message *message, int depth) noexcept nogil:
    """A message, which is all of `input`, into its columns."""
    cdef uint64_t tag = 0
    cdef uint32_t number
    cdef int wire
    cdef int problem
    cdef int guess = 0
    cdef int i
    cdef int looked
    cdef Field *field
    cdef Node *node = message.node
    # An entry of a map has no column of its own: its key's and its value's row are the same.
    cdef int64_t row = node.rows if node.kind == STRUCT else node.children[0].rows
    if depth > DEEPEST:
        return TOO_DEEP
    while input.at < input.end:
        problem = read_varint(input, &tag)
        if problem:
            return problem
        if tag >> 32 or tag >> 3 == 0:
            return BAD_TAG
        number = <uint32_t>(tag >> 3)
        wire = tag & 7
        field = NULL
        for looked in range(message.count):
            i = guess + looked
            if i >= message.count:
                i -= message.count
            if message.fields[i].number == number:
                field = &message.fields[i]
                guess = i if field.repeated else i + 1
                if guess >= message.count:
                    guess = 0
                break
        if field != NULL and (wire == wire_of(field.type) or (wire == 2 and field.repeated)):
            problem = push_field(input, message, field, wire, row, depth)
        else:
            problem = skip(input, number, wire, depth)
        if problem:
            return problem
    for i in range(message.count):
        field = &message.fields[i]
        if field.repeated:
            problem = end_list(field.node)
        elif field.node.rows == row:
            problem = push_absent(input, field, field.node, depth)
        else:
            continue
        if problem:
            return problem
    return mark(node, 1) if node.kind == STRUCT else 0


cdef class Plan:
    """See the twin."""

    cdef Message *messages
    cdef int message_count
    cdef list kept
    cdef Tree tree

    def __cinit__(self, Tree tree not None, messages):
        cdef int i
        cdef int j
        self.tree = tree
        self.kept = []
        self.message_count = len(messages)
        self.messages = <Message *>calloc(self.message_count + 1, sizeof(Message))
        if self.messages == NULL:
            raise MemoryError
        for i in range(self.message_count):
            node, fields = messages[i]
            self.messages[i].node = self.column(node)
            self.messages[i].fields = <Field *>calloc(len(fields) + 1, sizeof(Field))
            if self.messages[i].fields == NULL:
                raise MemoryError
            self.messages[i].count = len(fields)
            for j in range(self.messages[i].count):
                self.fill(&self.messages[i].fields[j], fields[j])
            self.check(&self.messages[i])

    cdef Node *column(self, int number) except NULL:
        if not 0 <= number < self.tree.node_count:
            raise ValueError(f"the tree has no column {number}")
        return self.tree.nodes[number]

    cdef fill(self, Field *field, description):
        cdef int i
        number, kind, node, repeated, absent, oneof, closed, message, symbols = description
        field.number = number
        field.type = kind
        field.node = self.column(node)
        field.repeated = repeated
        field.absent = absent
        field.oneof = oneof
        field.closed = closed
        if message >= 0:
            if message >= self.message_count:
                raise ValueError(f"the plan has no message {message}")
            field.message = &self.messages[<int>message]
        elif kind in (P_MESSAGE, P_ENTRY):
            raise ValueError("a message without its plan")
        if symbols:
            field.symbols = <int32_t *>calloc(len(symbols), sizeof(int32_t))
            field.names = <Piece *>calloc(len(symbols), sizeof(Piece))
            if field.symbols == NULL or field.names == NULL:
                raise MemoryError
            field.symbol_count = len(symbols)
            for i in range(field.symbol_count):
                value, name = symbols[i]
                kept = bytes(name)
                self.kept.append(kept)
                field.symbols[i] = value
                field.names[i].data = <const uint8_t *>PyBytes_AS_STRING(kept)
                field.names[i].length = PyBytes_GET_SIZE(kept)

    cdef check(self, Message *message):
        """Each field's column has a kind that the field can fill."""
        cdef int i
        cdef Field *field
        cdef Node *node
        if message.node.kind != STRUCT and message.node.kind != MAP:
            raise ValueError("a message needs a struct")
        for i in range(message.count):
            field = &message.fields[i]
            node = field.node
            if field.repeated:
                if node.kind != (MAP if field.type == P_ENTRY else LIST):
                    raise ValueError(f"field {field.number} is repeated, and its column is of kind {node.kind}")
                if field.type == P_ENTRY:
                    continue
                node = node.children[0]
            kind, wanted = node.kind, field.type
            if wanted in (P_STRING, P_ENUM):
                fits = kind == STRING
            elif wanted == P_BYTES:
                fits = kind == BINARY
            elif wanted == P_MESSAGE:
                fits = kind == STRUCT
            elif wanted == P_STAMP:
                fits = kind == TIMESTAMP
            elif wanted == P_SPAN:
                fits = kind == DURATION
            elif wanted == P_BOOL:
                fits = kind == BOOL
            elif wanted == P_FLOAT:
                fits = kind == FLOAT
            elif wanted == P_DOUBLE:
                fits = kind == DOUBLE
            elif wanted in (P_UINT64, P_FIXED64):
                fits = kind == DECIMAL
            else:
                fits = kind in (INT32, INT64) and wanted != P_ENTRY
            if not fits:
                raise ValueError(f"field {field.number} of type {wanted} cannot fill a column of kind {kind}")

    def __dealloc__(self):
        cdef int i
        cdef int j
        for i in range(self.message_count):
            for j in range(self.messages[i].count):
                free(self.messages[i].fields[j].symbols)
                free(self.messages[i].fields[j].names)
            free(self.messages[i].fields)
        free(self.messages)


cdef Py_ssize_t header_length(const uint8_t *at, const uint8_t *end) noexcept:
    """The bytes of magic, id and message indexes; 0 where they are not that."""
    cdef const uint8_t *begin = at
    cdef Input input
    cdef uint64_t raw = 0
    cdef int64_t left
    if end - at < 6 or at[0] != 0:
        return 0
    input.at = at + 5
    input.end = end
    if read_varint(&input, &raw):
        return 0
    left = zigzag(raw)
    if left < 0 or left > DEEPEST:
        return 0
    while left:
        if read_varint(&input, &raw):
            return 0
        left -= 1
    return input.at - begin


cdef void release(Input *input) noexcept:
    cdef Merged *next
    while input.merged != NULL:
        next = input.merged.next
        free(input.merged)
        input.merged = next
    input.merged_bytes = 0


def decode_protobuf(Tree tree not None, Records records not None, int64_t start, plans, bint framed):
    """See the twin."""
    cdef Input input
    cdef int64_t row
    cdef int64_t rows = records.length
    cdef int64_t first = tree.root.rows
    cdef int problem
    cdef Plan plan = None
    cdef Py_ssize_t length
    cdef const uint8_t *begin
    problems = []
    input.merged = NULL
    input.merged_bytes = 0
    if not framed:
        plan = plans[None]
    for row in range(start, rows):
        if records.is_null(row):
            if push_null(tree.root):
                raise MemoryError
            continue
        begin = records.start(row)
        input.at = begin
        input.end = records.end(row)
        input.where = tree.root
        problem = 0
        if framed:
            length = header_length(input.at, input.end)
            if length == 0:
                problem = BAD_MAGIC
            else:
                header = input.at[:length]
                found = plans.get(header, 0)
                if found == 0:
                    return row, header, problems
                if found is None:
                    problem = UNRESOLVED
                else:
                    plan = found
                input.at += length
        if not problem:
            if plan.tree is not tree:
                raise ValueError("the plan is for another tree")
            with nogil:
                problem = push_message(&input, plan.messages, 0)
            release(&input)
        if problem:
            make_null(tree.root, first + row - start, problem)
            # Of a merged message the place cannot be told.
            problems.append((row, problem, input.at - begin if begin <= input.at <= input.end else 0,
                             input.where.number))
    return rows, None, problems
