"""The shell of the group coordinator, and offsets where Kafka kept them at first."""
