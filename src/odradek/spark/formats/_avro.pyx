# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Avro's binary encoding straight into a tree of Arrow columns, each record by its writer's schema. Twin:
`odradek.spark.formats._pyavro`, whose docstrings are the contract; tests hold the two equal.

A plan is the writer's schema resolved to the columns (`spark/formats/avro_plan.py`): steps, whose order is that of
the bytes. A step without a column skips.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from odradek.spark.formats._tree cimport (
    BAD_BRANCH, BAD_LENGTH, BAD_MAGIC, BAD_SYMBOL, BINARY, BOOL, DECIMAL, DEEPEST, DOUBLE, DURATION, FLOAT,
    LARGEST, LIST, MAP, OUT_OF_MEMORY, OUT_OF_RANGE, STRING, STRUCT, TIMESTAMP, TOO_DEEP, TOO_LARGE, TRAILING,
    TRUNCATED, UNRESOLVED, WRONG_KIND, Node, Records, Tree, end_list, int128, make_null, mark, push_bytes,
    push_decimal, push_double, push_float, push_int8, push_integer, push_null, push_scaled, push_text,
)

cdef enum:
    # Steps: `avro_steps.py` has the same.
    NOTHING = 1
    BOOLEAN = 2
    LONG = 3
    REAL32 = 4
    REAL64 = 5
    TEXT = 6
    FIXED = 7
    ENUM = 8
    ARRAY = 9
    MAPPING = 10
    RECORD = 11
    UNION = 12
    MEMBER = 13
    CONSTANT = 14
    ABSENT = 15
    REFUSED = 16
    INT = 17

cdef enum:
    MOST_EMPTY = 65536  # elements of no bytes in the arrays of one record

cdef struct Piece:
    const uint8_t *data
    Py_ssize_t length

cdef struct Step:
    int op
    Node *target
    int64_t a
    int64_t b
    int count
    Step **steps
    int piece_count
    Piece *pieces

cdef struct Input:
    const uint8_t *start
    const uint8_t *at
    const uint8_t *end
    Node *where
    int64_t empty


cdef inline int read_long(Input *input, int64_t *value) noexcept nogil:
    """A zigzag varint of up to ten bytes."""
    cdef uint64_t raw = 0
    cdef int shift = 0
    cdef uint8_t c
    while True:
        if input.at == input.end:
            return TRUNCATED
        c = input.at[0]
        input.at += 1
        if shift == 63 and c > 1:
            return OUT_OF_RANGE
        raw |= <uint64_t>(c & 0x7F) << shift
        if c < 0x80:
            break
        shift += 7
    value[0] = <int64_t>(raw >> 1) ^ -<int64_t>(raw & 1)
    return 0


cdef inline int read_length(Input *input, int64_t *value) noexcept nogil:
    """A length in bytes, which have to be there."""
    cdef int problem = read_long(input, value)
    if problem:
        return problem
    if value[0] < 0:
        return BAD_LENGTH
    return TRUNCATED if value[0] > input.end - input.at else 0


cdef int push_unscaled(Node *node, const uint8_t *data, int64_t length, int scale) noexcept nogil:
    """A decimal: a whole number in two's complement, its highest byte first."""
    cdef int128 value = 0
    cdef int64_t i = 0
    if length:
        if data[0] & 0x80:
            value = -1
        # Bytes that only repeat the sign may lead.
        while i < length - 16 and data[i] == <uint8_t>(value & 0xFF):
            i += 1
        if length - i > 16:
            return OUT_OF_RANGE
        while i < length:
            value = value * 256 + data[i]
            i += 1
    return push_decimal(node, value, scale)


cdef inline int push_long(Step *step, int64_t value) noexcept nogil:
    cdef Node *node = step.target
    if node.kind == TIMESTAMP or node.kind == DURATION:
        return push_scaled(node, value, step.a, step.b)
    return push_integer(node, value)


cdef inline int push_data(Step *step, const uint8_t *data, int64_t length) noexcept nogil:
    cdef Node *node = step.target
    if node.kind == STRING:
        return push_text(node, data, length)
    if node.kind == BINARY:
        return push_bytes(node, data, length)
    return push_unscaled(node, data, length, <int>step.b)


cdef int run_blocks(Input *input, Step *step, int depth) noexcept nogil:
    """The blocks of an array or a map."""
    cdef int64_t count = 0
    cdef int64_t size = 0
    cdef int i
    cdef int problem
    cdef const uint8_t *began
    cdef Node *node = step.target
    while True:
        problem = read_long(input, &count)
        if problem:
            return problem
        if count == 0:
            break
        if count < 0:
            if count < -LARGEST:
                return TOO_LARGE
            count = -count
            problem = read_length(input, &size)
            if problem:
                return problem
            if node == NULL:
                input.at += size
                continue
        if count > LARGEST:
            return TOO_LARGE
        while count:
            began = input.at
            for i in range(step.count):
                problem = run(input, step.steps[i], depth + 1)
                if problem:
                    return problem
            if input.at == began:
                # Elements of no bytes: their number alone must not fill the memory.
                input.empty += 1
                if input.empty > MOST_EMPTY:
                    return TOO_LARGE
            count -= 1
    return end_list(node) if node != NULL else 0


cdef int run(Input *input, Step *step, int depth) noexcept nogil:
    """Decode what one step is for."""
    cdef int op = step.op
    cdef Node *node = step.target
    cdef int64_t value = 0
    cdef int problem
    cdef int i
    cdef float real
    cdef double wide
    cdef Input constant
    cdef const uint8_t *data
    if depth > DEEPEST:
        return TOO_DEEP
    if node != NULL:
        input.where = node
    if op == LONG or op == INT:
        problem = read_long(input, &value)
        if problem:
            return problem
        if op == INT and value != <int32_t>value:
            return OUT_OF_RANGE
        return push_long(step, value) if node != NULL else 0
    if op == TEXT:
        problem = read_length(input, &value)
        if problem:
            return problem
        data = input.at
        input.at += value
        return push_data(step, data, value) if node != NULL else 0
    if op == UNION:
        problem = read_long(input, &value)
        if problem:
            return problem
        if value < 0 or value >= step.count:
            return BAD_BRANCH
        return run(input, step.steps[value], depth + 1)
    if op == RECORD:
        for i in range(step.count):
            problem = run(input, step.steps[i], depth + 1)
            if problem:
                return problem
        return mark(node, 1) if node != NULL else 0
    if op == NOTHING or op == ABSENT:
        return push_null(node) if node != NULL else 0
    if op == REAL64:
        if input.end - input.at < 8:
            return TRUNCATED
        memcpy(&wide, input.at, 8)
        input.at += 8
        return push_double(node, wide) if node != NULL else 0
    if op == REAL32:
        if input.end - input.at < 4:
            return TRUNCATED
        memcpy(&real, input.at, 4)
        input.at += 4
        if node == NULL:
            return 0
        return push_float(node, real) if node.kind == FLOAT else push_double(node, <double>real)
    if op == BOOLEAN:
        if input.at == input.end:
            return TRUNCATED
        value = input.at[0]
        if value > 1:
            return WRONG_KIND
        input.at += 1
        return push_int8(node, <int8_t>value) if node != NULL else 0
    if op == FIXED:
        if input.end - input.at < step.a:
            return TRUNCATED
        data = input.at
        input.at += step.a
        return push_data(step, data, step.a) if node != NULL else 0
    if op == ENUM:
        problem = read_long(input, &value)
        if problem:
            return problem
        if value < 0 or value >= step.piece_count or step.pieces[value].data == NULL:
            return BAD_SYMBOL
        return push_bytes(node, step.pieces[value].data, step.pieces[value].length) if node != NULL else 0
    if op == ARRAY or op == MAPPING:
        return run_blocks(input, step, depth)
    if op == MEMBER:
        for i in range(node.count):
            if i != step.a and push_null(node.children[i]):
                return OUT_OF_MEMORY
        problem = run(input, step.steps[0], depth + 1)
        return problem if problem else mark(node, 1)
    if op == CONSTANT:
        constant.start = step.pieces[0].data
        constant.at = constant.start
        constant.end = constant.start + step.pieces[0].length
        constant.where = input.where
        constant.empty = 0
        return run(&constant, step.steps[0], depth + 1)
    return UNRESOLVED


cdef class Plan:
    """See the twin."""

    cdef Step *steps
    cdef int step_count
    cdef list kept
    cdef Tree tree

    def __cinit__(self, Tree tree not None, steps):
        cdef int i
        cdef int j
        cdef Step *step
        self.tree = tree
        self.kept = []
        self.step_count = len(steps)
        self.steps = <Step *>calloc(self.step_count + 1, sizeof(Step))
        if self.steps == NULL:
            raise MemoryError
        for i in range(self.step_count):
            op, target, a, b, below, pieces = steps[i]
            step = &self.steps[i]
            step.op = op
            step.a = a
            step.b = b
            if target >= 0:
                if target >= tree.node_count:
                    raise ValueError(f"the tree has no column {target}")
                step.target = tree.nodes[target]
            if op in (MEMBER, CONSTANT) and len(below) != 1 or op == CONSTANT and len(pieces) != 1 or (
                    op in (ABSENT, MEMBER) and target < 0) or op == FIXED and a < 0:
                raise ValueError(f"step {i} is not whole")
            if below:
                step.steps = <Step **>calloc(len(below), sizeof(Step *))
                if step.steps == NULL:
                    raise MemoryError
                step.count = len(below)
                for j in range(step.count):
                    if not 0 <= below[j] < self.step_count:
                        raise ValueError(f"the plan has no step {below[j]}")
                    step.steps[j] = &self.steps[<int>below[j]]
            if pieces:
                step.pieces = <Piece *>calloc(len(pieces), sizeof(Piece))
                if step.pieces == NULL:
                    raise MemoryError
                step.piece_count = len(pieces)
                for j in range(step.piece_count):
                    if pieces[j] is not None:
                        kept = bytes(pieces[j])
                        self.kept.append(kept)
                        step.pieces[j].data = <const uint8_t *>PyBytes_AS_STRING(kept)
                        step.pieces[j].length = PyBytes_GET_SIZE(kept)
        self.check()

    cdef check(self):
        """Each step's column has a kind that the step can fill."""
        cdef int i
        cdef Step *step
        for i in range(self.step_count):
            step = &self.steps[i]
            if step.target == NULL:
                continue
            kind = step.target.kind
            fits = True
            if step.op in (TEXT, FIXED):
                fits = kind in (STRING, BINARY, DECIMAL)
            elif step.op == ENUM:
                fits = kind == STRING
            elif step.op == ARRAY:
                fits = kind == LIST and step.count == 1
            elif step.op == MAPPING:
                fits = kind == MAP and step.count == 2
            elif step.op in (RECORD, MEMBER):
                fits = kind == STRUCT
            elif step.op == REAL32:
                fits = kind in (FLOAT, DOUBLE)
            elif step.op == REAL64:
                fits = kind == DOUBLE
            elif step.op == BOOLEAN:
                fits = kind == BOOL
            elif step.op in (INT, LONG):
                fits = step.target.width > 0 and kind != BOOL and step.b > 0
            if not fits:
                raise ValueError(f"step {i} cannot fill a column of kind {kind}")

    def __dealloc__(self):
        cdef int i
        for i in range(self.step_count):
            free(self.steps[i].steps)
            free(self.steps[i].pieces)
        free(self.steps)


def decode_avro(Tree tree not None, Records records not None, int64_t start, plans, bint framed):
    """See the twin."""
    cdef Input input
    cdef int64_t row
    cdef int64_t rows = records.length
    cdef int64_t first = tree.root.rows
    cdef int problem
    cdef Plan plan = None
    cdef uint32_t last_id = 0
    cdef uint32_t id
    cdef const uint8_t *header
    problems = []
    if not framed:
        plan = plans[None]
    for row in range(start, rows):
        if records.is_null(row):
            if push_null(tree.root):
                raise MemoryError
            continue
        input.start = records.start(row)
        input.at = input.start
        input.end = records.end(row)
        input.where = tree.root
        input.empty = 0
        problem = 0
        if framed:
            if input.end - input.at < 5 or input.at[0] != 0:
                problem = BAD_MAGIC
            else:
                header = input.at + 1
                id = (<uint32_t>header[0] << 24 | <uint32_t>header[1] << 16 | <uint32_t>header[2] << 8
                      | <uint32_t>header[3])
                if plan is None or id != last_id:
                    found = plans.get(id, 0)
                    if found == 0:
                        return row, id, problems
                    if found is None:
                        plan = None
                        problem = UNRESOLVED
                    else:
                        plan = found
                        last_id = id
                        if plan.tree is not tree:
                            raise ValueError("the plan is for another tree")
                input.at += 5
        elif plan.tree is not tree:
            raise ValueError("the plan is for another tree")
        if not problem:
            with nogil:
                problem = run(&input, plan.steps, 0)
            if not problem and input.at != input.end:
                problem = TRAILING
                input.where = tree.root
        if problem:
            make_null(tree.root, first + row - start, problem)
            problems.append((row, problem, input.at - input.start, input.where.number))
    return rows, None, problems
