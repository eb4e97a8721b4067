"""CustomObject: an object of custom code at work, with the runtime of its source and errors that name it."""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from cdk.base.errors import CdkError, FatalError
from cdk.base.process.connector_line import connector_line
from cdk.declarative.model.context import Runtime

_runtime: ContextVar[Runtime] = ContextVar("runtime")


class CustomCodeError(FatalError):
    """A custom component raised what is no CdkError; the cause is that exception."""

    unexpected = True


def runtime() -> Runtime:
    """The runtime of the source whose custom code runs in this thread, where no argument brings it along.

    Threads that custom code starts itself have one of their own.
    """
    return _runtime.get(None) or Runtime()


@contextmanager
def running(runtime: Runtime) -> Iterator[None]:
    """Give custom code the runtime of its source."""
    token = _runtime.set(runtime)
    try:
        yield
    finally:
        _runtime.reset(token)


class CustomObject:
    """Calls the methods of an object of custom code."""

    def __init__(self, instance: object, runtime: Runtime) -> None:
        self.instance: Any = instance
        self.runtime = runtime
        self.name = type(instance).__name__

    @contextmanager
    def at_work(self, method: str) -> Iterator[None]:
        """Run custom code inside. Raises CustomCodeError for what is no CdkError: these it raises on purpose."""
        try:
            with running(self.runtime):
                yield
        except CdkError:
            raise
        except Exception as error:
            kind = type(error).__name__
            where = f"{kind}: {error}{connector_line(error)}"
            raise CustomCodeError(f"the custom component {self.name}.{method} raised {where}") from error

    def call(self, method: str, *args: object, **kwargs: object) -> Any:  # noqa: ANN401 - only its class knows
        """What a method returns. Raises CustomCodeError: it raised what is no CdkError."""
        with self.at_work(method):
            return getattr(self.instance, method)(*args, **kwargs)

    def get(self, attribute: str, default: object = None) -> Any:  # noqa: ANN401 - as above
        """The value of an attribute; `default` where the object has none."""
        with self.at_work(attribute):
            return getattr(self.instance, attribute, default)

    def parameters(self, method: str) -> Mapping[str, inspect.Parameter]:
        """The parameters of a method, by name."""
        return inspect.signature(getattr(self.instance, method)).parameters
