"""`make demo`: the whole way through once, on events of this very machine.

counters.py    what /proc counts: processor, memory, disk, network
server.py      a broker in a process of its own, its data in the demo's folder
feed.py        two threads that produce: counters, and the broker's own request log
pipeline.py    the Spark query: both topics, windowed together, to Parquet and to a third topic
checks.py      events produced = events in the log = events read by Spark
report.py      what is shown: live progress, the table, the plot
__main__.py    puts them together; `python -m odradek.demo --help`
"""
