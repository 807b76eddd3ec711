"""The Python of Spark's workers and planners: this one, with PySpark from where it is installed.

Spark has them import PySpark from `pyspark.zip`, which holds sources alone. A first query starts four kinds
of them, one after the other, and each compiled PySpark for 0.45 s of CPU: a third of what the query took.
So in a session on this machine they are started by a script that takes the zip off PYTHONPATH, where the
very same PySpark is installed beside it, with bytecode.
"""

import importlib.util
import os
import re
import site
import sys
import sysconfig
from collections.abc import MutableMapping
from pathlib import Path

PROGRAM = Path(__file__).with_suffix(".sh")
PYTHON = "ODRADEK_WORKER_PYTHON"
"""The variable that tells the script which Python to start."""
DRIVERS = "PYSPARK_DRIVER_PYTHON"
NAMES = ("PYSPARK_PYTHON", DRIVERS)

_ONE_MACHINE = re.compile(r"local(\[.*\])?")
"""A master whose tasks run in the driver's own JVM."""

_set_here: dict[str, str] = {}


def choose(environment: MutableMapping[str, str], master: str) -> None:
    """Say in the variables that Spark reads which Python to start; what somebody else has said stays.

    A data source that Spark has found by its name runs by one of them in the driver and in executors: by the
    Python of the driver, or where none is named by that of the workers (`PythonUtils.defaultPythonExec`).
    Beside a PYSPARK_PYTHON of somebody's, a path of the driver's would be looked for on the executors'
    machines.

    Args:
        environment: of the JVM that is started next.
        master: where the session runs; "" where that is not known.
    """
    open_names = [name for name in NAMES if environment.get(name) == _set_here.get(name)]
    if open_names == [DRIVERS]:
        environment.pop(DRIVERS, None)
        return
    chosen = sys.executable
    if len(open_names) == len(NAMES) and _ONE_MACHINE.fullmatch(master) and _usable(environment):
        chosen = str(PROGRAM)
        environment[PYTHON] = sys.executable
    for name in open_names:
        environment[name] = _set_here[name] = chosen


def _usable(environment: MutableMapping[str, str]) -> bool:
    """Return whether a Python without Spark's zip finds the PySpark that it is of, and the script can run."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None or not os.access(PROGRAM, os.X_OK):
        return False
    package = Path(spec.origin).parent
    home = environment.get("SPARK_HOME")
    if home and Path(home).resolve() != package.resolve():
        return False
    # Those of the base too, where an environment was made with `--system-site-packages`.
    installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()}
    if site.ENABLE_USER_SITE:
        installed.add(site.getusersitepackages())
    return str(package.parent) in installed
