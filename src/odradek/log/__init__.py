"""The log on the disk, in Kafka's own format file by file (docs/log_format.md).

`log_manager.LogManager` has the data folders and all their logs, `partition_log.PartitionLog` is the log of
one partition, `segment.Segment` one of its files with the indexes beside it. Starting is two steps:
`recovery` looks at a folder and makes a plan without changing anything, `loading` carries it out. Every file
operation goes through `files.FileSystem`; `memory_files` has the one for tests, which tears writes and loses
power.

Knows records and errors; knows no sockets, no clock (times are handed in), no asyncio.
"""
