"""The process that Spark forks its Python workers from, with the imports of all tasks done; started with `python -m`.

With Spark's own daemon, each worker imports the kit, pyarrow and pydantic itself: half a second of CPU for each core of
the machine, and for each worker that replaces a dead one.
"""

from pyspark.daemon import manager

import cdk.sync.tasks.bundle_task  # noqa: F401 - forked workers inherit the import

if __name__ == "__main__":
    manager()
