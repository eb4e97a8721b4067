"""What custom code raises, as errors of ours that name it."""

from collections.abc import Iterator
from contextlib import contextmanager

from cdk.base.errors import CdkError, FatalError


class CustomCodeError(FatalError):
    """A custom component raised what is no error of ours; the cause is that exception."""


@contextmanager
def guard(component: object, method: str) -> Iterator[None]:
    """Name the component in whatever it raises. Errors of ours pass, custom code makes them on purpose."""
    try:
        yield
    except CdkError:
        raise
    except Exception as error:
        name = f"{type(component).__name__}.{method}"
        kind = type(error).__name__
        raise CustomCodeError(f"the custom component {name} raised {kind}: {error}") from error
