"""Compiles expressions to Python functions. Jinja only parses; evaluation bypasses it. Import this module lazily.

One function computes the value for a scope, another the values for all records of a page: the same results as Jinja's
compiled code, many times faster. Both are made from one Python expression that is assembled from AST nodes, never from
text: text of a manifest enters it only as constants and as prefixed names, and every function it calls is bound here.
Constructs without an equivalent Python expression, such as `{% if %}`, raise `Unsupported` and are left to Jinja.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import partial
from itertools import count
from types import FunctionType

from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import SandboxedEnvironment

from cdk.declarative.interpolation.evaluation import Column, Evaluation, Run, Scope
from cdk.declarative.interpolation.limits import BINARY, GROWING, check_call, join_texts, sized
from cdk.declarative.interpolation.macros import IMPURE

_PLAIN = frozenset((str, dict, list, tuple, int, float, datetime, date, timedelta))
_DICT_ATTRIBUTES = frozenset(dir(dict))
_COMPARISONS: Mapping[str, type[ast.cmpop]] = {
    "eq": ast.Eq,
    "ne": ast.NotEq,
    "gt": ast.Gt,
    "gteq": ast.GtE,
    "lt": ast.Lt,
    "lteq": ast.LtE,
    "in": ast.In,
    "notin": ast.NotIn,
}
_BOOLEANS: Mapping[str, type[ast.boolop]] = {"and": ast.And, "or": ast.Or}
_UNARY: Mapping[str, type[ast.unaryop]] = {"not": ast.Not, "-": ast.USub, "+": ast.UAdd}
_UNGUARDED: Mapping[str, type[ast.operator]] = {"-": ast.Sub, "/": ast.Div, "//": ast.FloorDiv}
"""Operators whose results cannot become large; all others are in `BINARY`."""

_AS_TEXT = ord("s")
"""The conversion `!s` of an f-string."""

# Each name is read once, up front, so a misspelt name is an error even in a branch that is not evaluated.
_RUN = "def run(scope):\n return VALUE"
_COLUMN = "def column(scope, records):\n values = []\n for n_record in records:\n  values.append(VALUE)\n return values"


class Unsupported(Exception):
    """This part of the language has no equivalent Python expression."""


def compile_nodes(env: SandboxedEnvironment, template: nodes.Template) -> Evaluation:
    """Return the evaluator of a template: the value of a single `{{ }}`, otherwise the concatenated text of all pieces.

    Raises Unsupported: when the template has statements or nodes without an equivalent Python expression.
    """
    compiler = _Compiler(env)
    pieces: list[nodes.Node] = []
    for part in template.body:
        match part:
            case nodes.Output(nodes=put_out):
                pieces.extend(put_out)
            case _:
                raise Unsupported
    value = compiler.value(pieces[0]) if len(pieces) == 1 else compiler.text(pieces)
    code = _Code(value, compiler.names, compiler.bound)
    return Evaluation(code.run, code.column, frozenset(compiler.names), compiler.varies, compiler.quotes)


class _Code:
    """The functions around one expression, each compiled on first call: few expressions of a manifest are called."""

    def __init__(self, value: ast.expr, names: set[str], bound: Mapping[str, object]) -> None:
        self._value, self._names, self._bound = value, sorted(names), bound
        self._run: Run | None = None
        self._column: Column | None = None

    def run(self, scope: Scope) -> object:
        if self._run is None:
            self._run = self._function(_RUN, self._names)
        return self._run(scope)

    def column(self, scope: Scope, records: Sequence[object]) -> list[object]:
        if self._column is None:
            # The loop in `_COLUMN` assigns `n_record`.
            self._column = self._function(_COLUMN, [name for name in self._names if name != "record"])
        return self._column(scope, records)

    def _function(self, text: str, names: Sequence[str]) -> FunctionType:
        module = _Filled(self._value).visit(ast.parse(text))
        (function,) = module.body
        function.body[:0] = [
            ast.Assign([_stored(_local(name))], ast.Subscript(_read("scope"), ast.Constant(name), ast.Load()))
            for name in names
        ]
        code = compile(ast.fix_missing_locations(module), "<expression>", "exec")
        namespace: dict[str, FunctionType] = {}
        exec(code, {**self._bound, "__builtins__": {}}, namespace)  # noqa: S102 - it contains no text of a manifest
        return namespace[function.name]


class _Filled(ast.NodeTransformer):
    """Inserts the value into a function."""

    def __init__(self, value: ast.expr) -> None:
        self._value = value

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._value if node.id == "VALUE" else node


def _local(name: str) -> str:
    return f"n_{name}"


def _read(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _stored(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


class _Compiler:
    """Translates each node into a Python expression and records what the expression uses.

    bound: the objects behind the names in the expression that are not read from the scope.
    """

    def __init__(self, env: SandboxedEnvironment) -> None:
        self._env, self._numbers = env, count()
        self.names: set[str] = set()
        self.varies = self.quotes = False
        self.bound: dict[str, object] = {"type": type, "dict": dict}

    def value(self, node: nodes.Node) -> ast.expr:  # noqa: C901, PLR0911, PLR0912 - a case for each node there is
        """Return the expression for a node. Raises Unsupported: when there is none."""
        match node:
            case nodes.Const(value=constant) | nodes.TemplateData(data=constant):
                return ast.Constant(constant)
            case nodes.Name(name=name) if name in self._env.globals:
                self.varies |= name in IMPURE
                return self._bind(self._env.globals[name])
            case nodes.Name(name=name):
                self.names.add(name)
                return _read(_local(name))
            case nodes.List(items=items):
                return ast.List(self._values(items), ast.Load())
            case nodes.Tuple(items=items):
                return ast.Tuple(self._values(items), ast.Load())
            case nodes.Dict(items=pairs):
                return ast.Dict([self.value(pair.key) for pair in pairs], [self.value(pair.value) for pair in pairs])
            case nodes.Getattr(node=subject, attr=attr):
                return self._below(self.value(subject), attr, as_item=False)
            case nodes.Getitem(node=subject, arg=key):
                return self._item(self.value(subject), key)
            case nodes.BinExpr(operator=operator, left=left, right=right):
                return self._binary(operator, self._values([left, right]))
            case nodes.UnaryExpr(operator=operator, node=subject):
                return ast.UnaryOp(_UNARY[operator](), self.value(subject))
            case nodes.Concat(nodes=parts):
                return self._calling(join_texts, *self._values(parts))
            case nodes.Compare(expr=first, ops=others):
                operators = [_COMPARISONS[other.op]() for other in others]
                return ast.Compare(self.value(first), operators, [self.value(other.expr) for other in others])
            case nodes.CondExpr(test=test, expr1=then, expr2=otherwise):
                missing = self._env.undefined("the inline if has no else")
                last = self._bind(missing) if otherwise is None else self.value(otherwise)
                return ast.IfExp(self.value(test), self.value(then), last)
            case nodes.Filter(name=name, node=nodes.Node() as subject, args=args):
                self.varies |= name == "random"
                self.quotes |= name == "string"
                return self._called(self._callable(self._env.filters.get(name)), [subject, *args], node)
            case nodes.Test(name=name, node=subject, args=args):
                return self._called(self._callable(self._env.tests.get(name)), [subject, *args], node)
            case nodes.Call(node=nodes.Name(name=name), args=args):
                self.varies |= name in IMPURE
                return self._called(self._callable(self._env.globals.get(name)), args, node)
            case nodes.Call(node=nodes.Getattr(node=subject, attr=attr), args=args):
                return self._called(_method(self._env, attr), [subject, *args], node)
            case _:
                raise Unsupported

    def text(self, pieces: Sequence[nodes.Node]) -> ast.expr:
        """Return the concatenated text of the pieces."""
        values = zip(pieces, self._values(pieces), strict=True)
        return ast.JoinedStr(
            [
                value if isinstance(piece, nodes.TemplateData) else ast.FormattedValue(value, _AS_TEXT, None)
                for piece, value in values
            ]
        )

    def _values(self, expressions: Sequence[nodes.Node]) -> list[ast.expr]:
        return [self.value(node) for node in expressions]

    def _bind(self, value: object) -> ast.expr:
        name = f"b{next(self._numbers)}"
        self.bound[name] = value
        return _read(name)

    def _calling(self, call: object, *args: ast.expr, named: ast.expr | None = None) -> ast.expr:
        return ast.Call(self._bind(call), list(args), [] if named is None else [ast.keyword(None, named)])

    def _item(self, target: ast.expr, key: nodes.Expr) -> ast.expr:
        match key:
            case nodes.Const(value=str() as name):
                return self._below(target, name, as_item=True)
            case nodes.Slice(start=start, stop=stop, step=step):
                ends = [ast.Constant(None) if end is None else self.value(end) for end in (start, stop, step)]
                return self._calling(_sliced, target, *ends)
            case _:
                return self._calling(self._env.getitem, target, self.value(key))

    def _below(self, target: ast.expr, key: str, *, as_item: bool) -> ast.expr:
        """Return the lookup of a key: direct if the target is a dict that has it, otherwise by Jinja."""
        get = self._env.getitem if as_item else self._env.getattr
        if key in _DICT_ATTRIBUTES and not as_item:
            # To Jinja, `record.items` is a method; `record['items']` is the value if there is one.
            return self._calling(get, target, ast.Constant(key))
        first, value = self._stored_once(target)
        if key in _DICT_ATTRIBUTES:
            otherwise = self._calling(get, value, ast.Constant(key))
        else:
            otherwise = self._calling(_missing(get, key, self._env.undefined(obj={}, name=key)), value)
        is_dict = ast.Compare(ast.Call(_read("type"), [first], []), [ast.Is()], [_read("dict")])
        has_key = ast.Compare(ast.Constant(key), [ast.In()], [value])
        item = ast.Subscript(value, ast.Constant(key), ast.Load())
        return ast.IfExp(ast.BoolOp(ast.And(), [is_dict, has_key]), item, otherwise)

    def _stored_once(self, target: ast.expr) -> tuple[ast.expr, ast.expr]:
        """Return two expressions for a value: for its first use, which stores it in a variable, and for later uses."""
        if isinstance(target, ast.Name):
            return target, target
        name = f"v{next(self._numbers)}"
        return ast.NamedExpr(_stored(name), target), _read(name)

    def _binary(self, operator: str, sides: list[ast.expr]) -> ast.expr:
        if operator in _BOOLEANS:
            return ast.BoolOp(_BOOLEANS[operator](), sides)
        if operator in _UNGUARDED:
            return ast.BinOp(sides[0], _UNGUARDED[operator](), sides[1])
        return self._calling(BINARY[operator], *sides)

    def _callable(self, call: object) -> Callable[..., object]:
        """Return the function with the argument it needs from Jinja bound. Jinja itself reports unknown functions."""
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
        self, call: Callable[..., object], args: Sequence[nodes.Node], node: nodes.Filter | nodes.Test | nodes.Call
    ) -> ast.expr:
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            raise Unsupported
        named = None
        if node.kwargs:
            keys: list[ast.expr | None] = [ast.Constant(str(keyword.key)) for keyword in node.kwargs]
            named = ast.Dict(keys, [self.value(keyword.value) for keyword in node.kwargs])
        return self._calling(call, *self._values(args), named=named)


def _sliced(value: Sequence[object], start: int | None, stop: int | None, step: int | None) -> Sequence[object]:
    return value[start:stop:step]


def _missing(get: Callable[[object, str], object], key: str, nothing: object) -> Callable[[object], object]:
    return lambda value: nothing if type(value) is dict else get(value, key)


def _method(env: SandboxedEnvironment, name: str) -> Callable[..., object]:
    # `format` can reach attributes from within its text, so only the sandbox's own `format` is safe.
    plain = frozenset() if name.startswith(("_", "format")) else _PLAIN
    grows = name in GROWING

    def call(subject: object, *args: object, **kwargs: object) -> object:
        if type(subject) in plain and hasattr(subject, name):
            method = getattr(subject, name)
        else:
            method = env.getattr(subject, name)
            if not env.is_safe_callable(method):
                raise SecurityError
        if grows:
            check_call(name, subject, [*args, *kwargs.values()])
        return sized(method(*args, **kwargs))

    return call
