"""How the tests start Spark's Python processes, on clusters too: with the PySpark that is installed.

A session does this by itself on one machine (`odradek.spark.sessions.worker_python`).
"""

import os
import sys

from odradek.spark.sessions.worker_python import NAMES, PROGRAM, PYTHON


def use() -> None:
    """Have all Sparks that this process starts, and those that its children start, do that."""
    os.environ.setdefault(PYTHON, sys.executable)
    for name in NAMES:
        os.environ.setdefault(name, str(PROGRAM))
