"""The garbage collector in Spark's Python processes.

PySpark collects garbage after every task and every step of planning, while the next may be waiting for that
process. Walking pyarrow, pandas and PySpark itself takes 25 ms each time: longer than a small task does.
"""

import gc

_TASKS_THAT_IMPORT = 4
_tasks = 0


def freeze_what_stays() -> None:
    """Take what is there by now out of the collector's sight; to be called where a task begins.

    Only before the first tasks of a process, which import; what they leave has just survived a collection.
    Before the first there was none, and none is made: imports leave no garbage, and the first query would
    wait 20 ms for it in each of its processes.
    """
    global _tasks
    if _tasks < _TASKS_THAT_IMPORT:
        _tasks += 1
        gc.freeze()
