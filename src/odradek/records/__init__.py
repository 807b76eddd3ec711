"""Record batches: Kafka's on-disk and on-wire format of records (docs/record_format.md).

- `batch`: the v2 header, iteration over batches and records
- `builder`: writes one batch
- `compression`, `codecs`: the five codecs, never unpacking more than the caller allows
- `validate`: what a broker checks before it appends what a client sent
- `patch`, `convert`: what a broker changes in a batch: in place, or by writing it anew
- `control`: commit and abort markers
- `message_set`, `message_set_builder`: message sets of magic 0 and 1, read and written; readers of all three
- `message_validation`, `up_conversion`: what a broker checks in them, and in which format it appends them
- `down_conversion`: batches for consumers that know only message sets
- `message_batches`: message sets for readers that know only batches
- `partitioner`: murmur2, and the partition of a key
- `columns`: batches to and from Arrow
- `kernel`, `message_kernel`: the per-record loops, compiled (`odradek._kernel`, `odradek._messages`) or in
  Python (`_pykernel`, `_pymessages`), equal to the byte

No sockets, no clock, no asyncio: bytes in, records or a `KafkaError` out.
"""
