"""How the tests start Spark's Python processes: with the PySpark that is installed, whose bytecode is kept.

Spark tells them to import PySpark from its zip, which holds sources alone. A session has six of these
processes (workers, and planners of data sources), and each compiles them for more than a second of CPU.
"""

import os
import sys
from pathlib import Path

_PROGRAM = Path(__file__).with_suffix(".sh")


def use() -> None:
    """Have all Sparks that this process starts, and those that its children start, do that."""
    os.environ.setdefault("TESTS_PYTHON", sys.executable)
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        os.environ.setdefault(name, str(_PROGRAM))
