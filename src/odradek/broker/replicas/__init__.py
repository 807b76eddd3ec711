"""The partitions on this broker: found, made, removed, appended to, waited for."""
