"""Where the fields of a record batch stand, for the compiled modules: `odradek.records.batch` says what they are."""

cdef enum:
    LOG_OVERHEAD = 12  # base offset and length, which the length does not count
    PREFIX_BYTES = 16  # base offset, length, leader epoch: what the CRC does not cover
    HEADER_BYTES = 61
    LENGTH_AT = 8
    LEADER_EPOCH_AT = 12
    MAGIC_AT = 16
    CRC_AT = 17
    ATTRIBUTES_AT = 21
    LAST_OFFSET_DELTA_AT = 23
    BASE_TIMESTAMP_AT = 27
    MAX_TIMESTAMP_AT = 35
    PRODUCER_ID_AT = 43
    PRODUCER_EPOCH_AT = 51
    BASE_SEQUENCE_AT = 53
    RECORD_COUNT_AT = 57
