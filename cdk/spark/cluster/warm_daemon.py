"""The process that Spark forks its Python workers from, with what every task imports: `python -m` starts it.

A worker of Spark's own daemon imports the kit, pyarrow and pydantic itself: half a second of CPU for each core of the
machine and for each worker that died.
"""

from pyspark.daemon import manager

import cdk.sync.tasks.bundle_task  # noqa: F401 - each worker has it then

if __name__ == "__main__":
    manager()
