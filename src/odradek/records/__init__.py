"""Record batches: Kafka's on-disk and on-wire format of records (docs/record_format.md).

- `batch`: the v2 header, iteration over batches and records
- `builder`: writes one batch
- `compression`, `codecs`: the five codecs, never unpacking more than the caller allows
- `validate`: what a broker checks before it appends what a client sent
- `patch`: what a broker changes in a batch, in place
- `control`: commit and abort markers
- `partitioner`: murmur2, and the partition of a key
- `columns`: batches to and from Arrow
- `kernel`: the per-record loops, compiled (`_kernel`) or in Python (`_pykernel`), equal to the byte
- `message_sets`: the same for message sets of magic 0 and 1; readers of all three; message sets as batches
- `conversion`: from one format, or codec, to another: for the log that takes it, and for old consumers

No sockets, no clock, no asyncio: bytes in, records or a `KafkaError` out.
"""
