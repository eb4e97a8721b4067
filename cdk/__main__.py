"""`spark-cdk`, and `python -m cdk`."""

import sys

from cdk.cli.app import run


def main() -> None:
    """Run the command line of this process and end it with its exit code."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
