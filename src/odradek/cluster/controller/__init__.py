"""The controller: pure decisions, and the shells that write them and tell the brokers.

`decisions`, `elections`, `assignment`, `topics` are pure. `controller` is that of a broker that is alone;
`contested_controller`, `reassignment`, `topic_deletion`, `cluster_controller` make it that of a cluster.
`admin` and `partition_admin` are what clients ask for, `control_requests` and `broker_queues` what it tells
brokers.
"""
