"""The paths that an expression reads: `{{ response.meta.next or response['token'] }}` reads two of `response`."""

from collections.abc import Iterator

from jinja2 import nodes


def paths_in(node: nodes.Node) -> Iterator[tuple[str, ...]]:
    """The paths that a parsed text reads, as far as they are written there; the first name is a variable's."""
    if names := _path(node):
        yield names
        return
    for part in node.iter_child_nodes():
        yield from paths_in(part)


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
