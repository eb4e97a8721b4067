"""`spark-cdk`, and `python -m cdk`."""

import atexit
import gc
import os

import cdk


def main() -> None:
    """Run the command line of this process and end it with its exit code."""
    # A command that lives for a third of a second spends a tenth of it on looking for plugins of pydantic, of which
    # none is wanted, and on looking for garbage among the classes that it has just made; and another tenth on looking
    # at them once more when it ends.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    gc.set_threshold(200_000, 20, 100)
    atexit.register(gc.freeze)
    cdk.launch()


if __name__ == "__main__":
    main()
