"""CustomObject: calls the methods of a custom component with the runtime of its source, and names it in errors."""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from copy import copy
from threading import local
from typing import Any

from cdk.base.errors import CdkError, FatalError
from cdk.base.process.connector_line import error_with_line
from cdk.base.run import setting
from cdk.declarative.model.context import Runtime

_runtime: ContextVar[Runtime | None] = ContextVar("runtime", default=None)


class CustomCodeError(FatalError):
    """A custom component raised an exception that is not a CdkError; it is the `__cause__`."""

    unexpected = True


def runtime() -> Runtime:
    """The runtime of the source whose custom code runs in this thread, for code that does not get it as an argument.

    In threads that custom code starts itself, this is a new runtime with default settings.
    """
    return _runtime.get() or Runtime()


def running(runtime: Runtime) -> AbstractContextManager[Runtime]:
    """Set what `runtime()` returns to custom code inside the block."""
    return setting(_runtime, runtime)


class CustomObject:
    """Calls the methods of a custom component. name: of its class, for errors."""

    def __init__(self, instance: object, runtime: Runtime) -> None:
        self._instance: Any = instance
        self._copies: local | None = None
        self.runtime = runtime
        self.name = type(instance).__name__

    def by_thread(self) -> "CustomObject":
        """Return the component with a copy of the instance for each thread.

        What a call assigns to an attribute, calls for other slices do not see; lists and the like remain shared.
        """
        custom = CustomObject(self._instance, self.runtime)
        custom._copies = local()
        return custom

    @property
    def instance(self) -> Any:  # noqa: ANN401 - only its class knows
        """The object itself, or the copy of this thread."""
        if self._copies is None:
            return self._instance
        if "instance" not in self._copies.__dict__:
            self._copies.instance = copy(self._instance)
        return self._copies.instance

    @contextmanager
    def calling(self, method: str) -> Iterator[None]:
        """Let the block call a method of the object, which may use `runtime()`.

        Raises CustomCodeError: the code raised an exception that is not a CdkError. CdkErrors, which it raises on
        purpose, pass through.
        """
        try:
            with running(self.runtime):
                yield
        except CdkError:
            raise
        except Exception as error:
            raised = f"the custom component {self.name}.{method} raised {error_with_line(error)}"
            raise CustomCodeError(raised) from error

    def call(self, method: str, *args: object, **kwargs: object) -> Any:  # noqa: ANN401 - only its class knows
        """Call a method and return its result. Raises as `calling` does."""
        with self.calling(method):
            return getattr(self.instance, method)(*args, **kwargs)

    def get(self, attribute: str, default: object = None) -> Any:  # noqa: ANN401 - as above
        """The value of an attribute; `default` if the object does not have it."""
        with self.calling(attribute):
            return getattr(self.instance, attribute, default)

    def parameters(self, method: str) -> Mapping[str, inspect.Parameter]:
        """The parameters of a method, by name."""
        return inspect.signature(getattr(self.instance, method)).parameters
