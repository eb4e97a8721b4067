"""The paths that an expression reads: `{{ response.meta.next or response['token'] }}` reads two of `response`."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from jinja2 import nodes

from cdk.declarative.interpolation.environment import environment


@lru_cache(maxsize=1024)
def paths_read(text: str) -> Sequence[tuple[str, ...]]:
    """The paths of a text that can be compiled, as far as they are written there; the first name is a variable's."""
    return tuple(_paths(environment().parse(text)))


def _paths(node: nodes.Node) -> Iterator[tuple[str, ...]]:
    if names := _path(node):
        yield names
        return
    for part in node.iter_child_nodes():
        yield from _paths(part)


def _path(node: nodes.Node) -> tuple[str, ...]:
    """The path that a node is, if it is one: `a.b`, `a['b']` or `a.get('b')`."""
    match node:
        case nodes.Name(name=str(name)):
            return (name,)
        case (
            nodes.Getattr(node=inner, attr=str(name))
            | nodes.Getitem(node=inner, arg=nodes.Const(value=str(name)))
            | nodes.Call(node=nodes.Getattr(node=inner, attr="get"), args=[nodes.Const(value=str(name)), *_])
        ) if above := _path(inner):
            return (*above, name)
    return ()
