"""Steps of a plan for Avro: the numbers that `_avro.pyx` has too. Pure."""

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

MOST_EMPTY = 65_536
"""Elements of no bytes in the arrays of one record."""
