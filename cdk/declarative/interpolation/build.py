"""Builds the evaluator of a text with `{{ }}`. Imports Jinja; import this module lazily."""

import re
from collections.abc import Iterator, Mapping

from jinja2 import meta, nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.sandbox import SandboxedEnvironment
from jinja2.visitor import NodeTransformer
from msgspec.structs import replace

from cdk.base.logs import logger
from cdk.base.wording import nearest
from cdk.declarative.interpolation.compiler import Unsupported, compile_nodes
from cdk.declarative.interpolation.environment import budget, environment
from cdk.declarative.interpolation.errors import ExpressionError
from cdk.declarative.interpolation.evaluation import NAMES, Evaluation, one_by_one
from cdk.declarative.interpolation.limits import EvaluationBudget, join_texts, sized
from cdk.declarative.interpolation.macros import IMPURE

_STEPS = "steps_of_loops"
_JOIN = "texts_joined"
_UNKNOWN = re.compile(r"No (filter|test) named '([^']*)'")


def build(text: str, where: str, parameters: frozenset[str] | None = None) -> Evaluation:
    """Return the evaluator of `text`; log a warning for undefined names if `where` is set. parameters: the known ones.

    Raises ExpressionError: when the syntax is wrong or the expression reads `stream_state`.
    """
    env = environment()
    try:
        template = env.parse(text)
        paths = tuple(_paths_in(template))
        try:
            evaluation = compile_nodes(env, template)
        except Unsupported:
            evaluation = _jinja(env, template, text)
    except TemplateSyntaxError as error:
        raise ExpressionError(where, text, _syntax_problem(env, error, text)) from None
    except RecursionError:
        raise ExpressionError(where, text, "it is nested too deeply") from None
    if "stream_state" in evaluation.names:
        why = "`stream_state` was removed from the language; use `stream_interval`, the slice being read"
        raise ExpressionError(where, text, why)
    if where:
        _warn("variable", evaluation.names - NAMES, NAMES, text, where)
        if parameters is not None and "parameters" in evaluation.names:
            _warn("parameter", frozenset(_parameters_in(template)) - parameters, parameters, text, where)
    return replace(evaluation, paths=paths)


def _warn(what: str, names: frozenset[str], known: frozenset[str], text: str, where: str) -> None:
    """Log each undefined name. It evaluates to an empty value, so a URL that uses it may look valid."""
    for name in sorted(names):
        near = nearest(name, known)
        instead = f"did you mean {near!r}?" if near else f"expressions know {', '.join(sorted(known)) or 'none here'}"
        logger.warning("%s: the %s %r of %s is not defined, so it is empty; %s", where, what, name, text, instead)


def _parameters_in(node: nodes.Node) -> Iterator[str]:
    """Yield the parameters that a parsed text reads without a default or a check for their presence."""
    match node:
        case (
            nodes.Getattr(node=nodes.Name(name="parameters"), attr=str(name))
            | nodes.Getitem(node=nodes.Name(name="parameters"), arg=nodes.Const(value=str(name)))
        ) if name not in dir(dict):
            yield name
        case nodes.Or() | nodes.Test() | nodes.CondExpr() | nodes.If() | nodes.Filter(name="default" | "d"):
            pass
        case _:
            for part in node.iter_child_nodes():
                yield from _parameters_in(part)


def _jinja(env: SandboxedEnvironment, template: nodes.Template, text: str) -> Evaluation:
    """Return an evaluator that renders with Jinja: for statements and everything else without a Python equivalent."""
    names = meta.find_undeclared_variables(template) - env.globals.keys()
    used = {node.name for node in template.find_all(nodes.Name)}
    filters = {node.name for node in template.find_all(nodes.Filter)}
    for loop in list(template.find_all(nodes.For)):
        steps = nodes.Name(_STEPS, "load", lineno=loop.lineno)
        loop.iter = nodes.Call(steps, [loop.iter], [], None, None, lineno=loop.lineno)
    _Joined().visit(template)
    template.set_environment(env)
    compiled = env.template_class.from_code(env, env.compile(template), env.globals)

    def render(scope: Mapping[str, object]) -> str:
        own = EvaluationBudget(text)
        before = budget.set(own)
        try:
            return str(
                sized(compiled.render({name: scope[name] for name in names}, **{_STEPS: own.steps, _JOIN: join_texts}))
            )
        finally:
            budget.reset(before)

    varies = bool(used & IMPURE) or "random" in filters
    return Evaluation(render, one_by_one(render), frozenset(names), varies, quotes="string" in filters)


class _Joined(NodeTransformer):
    """Replaces `~` by a call that limits the size of the result, because Jinja does not intercept this operator."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 - the name that Jinja calls
        self.generic_visit(node)
        join = nodes.Name(_JOIN, "load", lineno=node.lineno)
        return nodes.Call(join, node.nodes, [], None, None, lineno=node.lineno)


def _syntax_problem(env: SandboxedEnvironment, error: TemplateSyntaxError, text: str) -> str:
    message = (error.message or "wrong syntax").rstrip(".")
    unknown = _UNKNOWN.match(message)
    if unknown is not None:
        known = env.filters if unknown[1] == "filter" else env.tests
        near = nearest(unknown[2], known)
        message = f"unknown {unknown[1]} {unknown[2]!r}" + (f"; did you mean {near!r}?" if near else "")
    return f"line {error.lineno}: {message}" if "\n" in text else message


def _paths_in(node: nodes.Node) -> Iterator[tuple[str, ...]]:
    """Yield the paths that a parsed text reads, as far as they are literal; each starts with a variable name.

    `{{ response.meta.next or response['token'] }}` yields two paths below `response`.
    """
    if names := _path(node):
        yield names
        return
    for part in node.iter_child_nodes():
        yield from _paths_in(part)


def _path(node: nodes.Node) -> tuple[str, ...]:
    """Return the path that a node spells: `a.b`, `a['b']` or `a.get('b')`; empty if it spells none."""
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
