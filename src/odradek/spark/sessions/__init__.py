"""A Spark session with the measured settings, its Java, and the Python of its workers."""
