"""Record batches: Kafka's on-disk and on-wire format of records (docs/record_format.md).

- `batch`: the v2 header, iteration over batches and records
- `builder`: writes one batch
- `compression`, `xerial`: the five codecs, never unpacking more than the caller allows
- `validate`: what a broker checks before it appends what a client sent
- `patch`, `convert`: what a broker changes in a batch: in place, or by writing it anew
- `control`: commit and abort markers
- `partitioner`: murmur2, and the partition of a key
- `columns`: batches to and from Arrow
- `kernel`: the per-record loops, compiled (`odradek._kernel`) or in Python (`_pykernel`), equal to the byte

No sockets, no clock, no asyncio: bytes in, records or a `KafkaError` out.
"""
