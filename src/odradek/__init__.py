"""odradek: Apache Kafka's system in Python.

`Producer`, `Consumer`, `Admin`, `SimpleConsumer` and their asyncio faces are imported on first use, so
that `import odradek` stays light.
"""

__version__ = "0.1.0"
