"""The controller, of parts that are handed to each other: see docs/controller.md.

`kafka_controller` makes them, and is what brokers and handlers call. `decisions`, `elections`, `assignment`,
`topics` are pure; `control_requests`, in the forms of `control_request_forms`, and `broker_queues` are what
brokers are told.
"""
