"""Expressions as Python closures. Jinja parses; what it reads is called without Jinja. Import this module lazily.

A closure takes the scope (the names an expression reads) and gives the value, as Jinja's compiled code would, several
times faster. What has no closure here, such as `{% if %}`, is left to Jinja: `Unsupported` says so.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial
from typing import TypeAlias

from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import SandboxedEnvironment

from cdk.base.values import Json
from cdk.declarative.interpolation.guards import BINARY, GROWING, check_growth
from cdk.declarative.interpolation.macros import IMPURE

Scope: TypeAlias = Mapping[str, Json]
Run: TypeAlias = Callable[[Scope], Json]

_Step: TypeAlias = tuple[object, Callable[[Json], Json]]
"""The key to look for in a dict, and what to do when the value is no dict or lacks it."""

_NO_KEY = object()
_NO_KWARGS: Mapping[str, Json] = {}

_PLAIN = frozenset((str, dict, list, tuple, int, float, datetime, date, timedelta))
_DICT_ATTRIBUTES = frozenset(dir(dict))
_COMPARISONS: Mapping[str, Callable[[Json, Json], Json]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "gteq": operator.ge,
    "lt": operator.lt,
    "lteq": operator.le,
    "in": lambda left, right: left in right,
    "notin": lambda left, right: left not in right,
}


class Unsupported(Exception):
    """This part of the language has no closure."""


@dataclass(slots=True)
class Found:
    """What was seen while compiling: the names read, whether an impure macro or `| string` is used.

    lazy: some names may not be looked up, so that all are to be checked before.
    """

    names: set[str]
    varies: bool = False
    quotes: bool = False
    lazy: bool = False


def compile_nodes(env: SandboxedEnvironment, template: nodes.Template) -> tuple[Run, Found]:
    """The closure of a template: the value of a lone `{{ }}`, else the text of all pieces.

    Raises Unsupported: it has statements, or nodes without a closure.
    """
    found = Found(set())
    compiler = _Compiler(env, found)
    pieces: list[nodes.Node] = []
    for part in template.body:
        if not isinstance(part, nodes.Output):
            raise Unsupported
        pieces.extend(part.nodes)
    if len(pieces) == 1 and not isinstance(pieces[0], nodes.TemplateData):
        return compiler.run(pieces[0]), found
    return _joined(
        [piece.data if isinstance(piece, nodes.TemplateData) else compiler.run(piece) for piece in pieces]
    ), found


def _joined(pieces: Sequence[str | Run]) -> Run:
    """The pieces' texts, one after the other."""
    texts = [piece if isinstance(piece, str) else "" for piece in pieces]
    holes = [(i, piece) for i, piece in enumerate(pieces) if not isinstance(piece, str)]

    def join(scope: Scope) -> str:
        parts = texts.copy()
        for i, run in holes:
            value = run(scope)
            parts[i] = value if type(value) is str else str(value)
        return "".join(parts)

    return join


class _Compiler:
    def __init__(self, env: SandboxedEnvironment, found: Found) -> None:
        self._env = env
        self._found = found

    def run(self, node: nodes.Node) -> Run:
        compiled = getattr(self, f"_{type(node).__name__.lower()}", None)
        if compiled is None:
            raise Unsupported
        run: Run = compiled(node)
        return run

    def _runs(self, given: Sequence[nodes.Node]) -> list[Run]:
        return [self.run(node) for node in given]

    # --- values and names ----------------------------------------------------------------------------------------

    def _const(self, node: nodes.Const) -> Run:
        value = node.value
        return lambda _: value

    def _templatedata(self, node: nodes.TemplateData) -> Run:
        value = node.data
        return lambda _: value

    def _name(self, node: nodes.Name) -> Run:
        name = node.name
        if name in self._env.globals:
            value = self._env.globals[name]
            self._found.varies |= name in IMPURE
            return lambda _: value
        self._found.names.add(name)
        return operator.itemgetter(name)

    def _list(self, node: nodes.List) -> Run:
        items = self._runs(node.items)
        return lambda scope: [item(scope) for item in items]

    def _tuple(self, node: nodes.Tuple) -> Run:
        items = self._runs(node.items)
        return lambda scope: tuple([item(scope) for item in items])

    def _dict(self, node: nodes.Dict) -> Run:
        pairs = [(self.run(pair.key), self.run(pair.value)) for pair in node.items]
        return lambda scope: {key(scope): value(scope) for key, value in pairs}

    # --- paths ---------------------------------------------------------------------------------------------------

    def _getattr(self, node: nodes.Getattr) -> Run:
        return self._path(node)

    def _getitem(self, node: nodes.Getitem) -> Run:
        if isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
            return self._path(node)
        target = self.run(node.node)
        if isinstance(node.arg, nodes.Slice):
            parts = [part and self.run(part) for part in (node.arg.start, node.arg.stop, node.arg.step)]
            return lambda scope: target(scope)[slice(*[part and part(scope) for part in parts])]
        index, getitem = self.run(node.arg), self._env.getitem
        return lambda scope: getitem(target(scope), index(scope))

    def _path(self, node: nodes.Node) -> Run:
        """A name, or another expression, and keys behind it: one closure for all of them."""
        steps: list[_Step] = []
        while True:
            if isinstance(node, nodes.Getattr):
                steps.append(self._step(node.attr, as_item=False))
            elif (
                isinstance(node, nodes.Getitem)
                and isinstance(node.arg, nodes.Const)
                and isinstance(node.arg.value, str)
            ):
                steps.append(self._step(node.arg.value, as_item=True))
            else:
                break
            node = node.node
        steps.reverse()
        if not isinstance(node, nodes.Name) or node.name in self._env.globals:
            return _follow(self.run(node), steps)
        self._found.names.add(node.name)
        match steps:
            case [step]:
                return _one_key(node.name, step)
            case [first, second]:
                return _two_keys(node.name, first, second)
            case _:
                return _follow(operator.itemgetter(node.name), steps)

    def _step(self, key: str, *, as_item: bool) -> _Step:
        get = self._env.getitem if as_item else self._env.getattr
        # `record.items` is a method to Jinja, `record['items']` the value where there is one.
        if key in _DICT_ATTRIBUTES:
            return (key if as_item else _NO_KEY), lambda value: get(value, key)
        nothing = self._env.undefined(obj={}, name=key)
        return key, lambda value: nothing if type(value) is dict else get(value, key)

    # --- operators -----------------------------------------------------------------------------------------------

    def _binary(self, node: nodes.BinExpr) -> Run:
        left, right, call = self.run(node.left), self.run(node.right), BINARY[node.operator]
        return lambda scope: call(left(scope), right(scope))

    _add = _sub = _mul = _div = _floordiv = _mod = _pow = _binary

    def _and(self, node: nodes.And) -> Run:
        self._found.lazy = True
        left, right = self.run(node.left), self.run(node.right)
        return lambda scope: left(scope) and right(scope)

    def _or(self, node: nodes.Or) -> Run:
        self._found.lazy = True
        left, right = self.run(node.left), self.run(node.right)
        return lambda scope: left(scope) or right(scope)

    def _not(self, node: nodes.Not) -> Run:
        value = self.run(node.node)
        return lambda scope: not value(scope)

    def _neg(self, node: nodes.Neg) -> Run:
        value = self.run(node.node)
        return lambda scope: -value(scope)

    def _pos(self, node: nodes.Pos) -> Run:
        value = self.run(node.node)
        return lambda scope: +value(scope)

    def _concat(self, node: nodes.Concat) -> Run:
        return _joined(self._runs(node.nodes))

    def _compare(self, node: nodes.Compare) -> Run:
        first = self.run(node.expr)
        rest = [(_COMPARISONS[operand.op], self.run(operand.expr)) for operand in node.ops]
        if len(rest) == 1:
            call, second = rest[0]
            return lambda scope: call(first(scope), second(scope))
        self._found.lazy = True

        def chain(scope: Scope) -> Json:
            left, result = first(scope), True
            for call, operand in rest:
                right = operand(scope)
                result = call(left, right)
                if not result:
                    break
                left = right
            return result

        return chain

    def _condexpr(self, node: nodes.CondExpr) -> Run:
        self._found.lazy = True
        test, then = self.run(node.test), self.run(node.expr1)
        if node.expr2 is None:
            nothing = self._env.undefined("the inline if has no else")
            return lambda scope: then(scope) if test(scope) else nothing
        otherwise = self.run(node.expr2)
        return lambda scope: then(scope) if test(scope) else otherwise(scope)

    # --- calls ---------------------------------------------------------------------------------------------------

    def _filter(self, node: nodes.Filter) -> Run:
        if node.node is None:
            raise Unsupported
        self._found.varies |= node.name == "random"
        self._found.quotes |= node.name == "string"
        call = self._bound(self._env.filters.get(node.name))
        return self._called(call, [node.node, *node.args], node.kwargs, node)

    def _test(self, node: nodes.Test) -> Run:
        call = self._bound(self._env.tests.get(node.name))
        return self._called(call, [node.node, *node.args], node.kwargs, node)

    def _call(self, node: nodes.Call) -> Run:
        if isinstance(node.node, nodes.Name):
            name = node.node.name
            macro = self._env.globals.get(name)
            self._found.varies |= name in IMPURE
            return self._called(self._bound(macro), node.args, node.kwargs, node)
        if isinstance(node.node, nodes.Getattr):
            return self._method(node.node, node)
        raise Unsupported

    def _bound(self, call: object) -> Callable[..., Json]:
        """The function, with what it wants of Jinja as its first argument. Jinja itself reports unknown ones."""
        if not callable(call):
            raise Unsupported
        wants = getattr(call, "jinja_pass_arg", None)
        if wants is None:
            return call
        match wants.name:
            case "environment":
                return partial(call, self._env)
            case "eval_context":
                return partial(call, nodes.EvalContext(self._env))
            case _:
                raise Unsupported

    def _called(
        self,
        call: Callable[..., Json],
        args: Sequence[nodes.Node],
        kwargs: Sequence[nodes.Keyword] | Sequence[nodes.Pair],
        node: nodes.Filter | nodes.Test | nodes.Call,
    ) -> Run:
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            raise Unsupported
        given = self._runs(args)
        named = [(str(keyword.key), self.run(keyword.value)) for keyword in kwargs]
        if named:
            return lambda scope: call(*[arg(scope) for arg in given], **{key: value(scope) for key, value in named})
        match given:
            case []:
                return lambda _: call()
            case [only]:
                return lambda scope: call(only(scope))
            case [first, second]:
                return lambda scope: call(first(scope), second(scope))
            case _:
                return lambda scope: call(*[arg(scope) for arg in given])

    def _method(self, target: nodes.Getattr, node: nodes.Call) -> Run:
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            raise Unsupported
        subject, name, env = self.run(target.node), target.attr, self._env
        given = self._runs(node.args)
        named = [(str(keyword.key), self.run(keyword.value)) for keyword in node.kwargs]
        # `format` reaches attributes from within its text: only the sandbox's own is safe.
        plain = frozenset() if name.startswith(("_", "format")) else _PLAIN
        grows = name in GROWING

        def call(scope: Scope) -> Json:
            value = subject(scope)
            if type(value) in plain and hasattr(value, name):
                method = getattr(value, name)
            else:
                method = env.getattr(value, name)
                if not env.is_safe_callable(method):
                    raise SecurityError
            args = [arg(scope) for arg in given]
            kwargs = {key: arg(scope) for key, arg in named} if named else _NO_KWARGS
            if grows:
                check_growth(value, [*args, *kwargs.values()])
            return method(*args, **kwargs)

        return call


def _one_key(name: str, step: _Step) -> Run:
    key, otherwise = step

    def get(scope: Scope) -> Json:
        value = scope[name]
        if type(value) is dict and key in value:
            return value[key]
        return otherwise(value)

    return get


def _two_keys(name: str, first: _Step, second: _Step) -> Run:
    (key, otherwise), (key2, otherwise2) = first, second

    def get(scope: Scope) -> Json:
        value = scope[name]
        value = value[key] if type(value) is dict and key in value else otherwise(value)
        if type(value) is dict and key2 in value:
            return value[key2]
        return otherwise2(value)

    return get


def _follow(root: Run, steps: Sequence[_Step]) -> Run:
    def get(scope: Scope) -> Json:
        value = root(scope)
        for key, otherwise in steps:
            value = value[key] if type(value) is dict and key in value else otherwise(value)
        return value

    return get
