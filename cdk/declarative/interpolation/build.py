"""From a text with `{{ }}` to what evaluates it. Imports Jinja; import this module lazily."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from jinja2 import meta, nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.sandbox import SandboxedEnvironment

from cdk.base.spelling import nearest
from cdk.base.values import Json
from cdk.declarative.interpolation.compiler import Unsupported, compile_nodes
from cdk.declarative.interpolation.environment import environment
from cdk.declarative.interpolation.errors import ExpressionError, Refused
from cdk.declarative.interpolation.evaluation import Evaluation, one_by_one
from cdk.declarative.interpolation.guards import MAX_SIZE
from cdk.declarative.interpolation.macros import IMPURE

_STEPS = "steps_of_loops"
_UNKNOWN = re.compile(r"No (filter|test) named '([^']*)'")


def build(text: str, where: str) -> Evaluation:
    """What evaluates `text`.

    Raises ExpressionError: its syntax is wrong or it reads `stream_state`.
    """
    env = environment()
    try:
        template = env.parse(text)
        try:
            evaluation = compile_nodes(env, template)
        except Unsupported:
            evaluation = _jinja(env, template)
    except TemplateSyntaxError as error:
        raise ExpressionError(where, text, _mistake(env, error, text)) from None
    except RecursionError:
        raise ExpressionError(where, text, "it is nested too deep") from None
    if "stream_state" in evaluation.names:
        why = "`stream_state` was removed from the language; use `stream_interval`, the slice being read"
        raise ExpressionError(where, text, why)
    return evaluation


def _jinja(env: SandboxedEnvironment, template: nodes.Template) -> Evaluation:
    """Rendered by Jinja: statements and all else that has no Python expression."""
    names = meta.find_undeclared_variables(template) - env.globals.keys()
    used = {node.name for node in template.find_all(nodes.Name)}
    filters = {node.name for node in template.find_all(nodes.Filter)}
    for loop in list(template.find_all(nodes.For)):
        steps = nodes.Name(_STEPS, "load", lineno=loop.lineno)
        loop.iter = nodes.Call(steps, [loop.iter], [], None, None, lineno=loop.lineno)
    template.set_environment(env)
    compiled = env.template_class.from_code(env, env.compile(template), env.globals)

    def render(scope: Mapping[str, Json]) -> str:
        return compiled.render({name: scope[name] for name in names}, **{_STEPS: _bounded()})

    varies = bool(used & IMPURE) or "random" in filters
    return Evaluation(render, one_by_one(render), frozenset(names), varies, quotes="string" in filters)


def _bounded() -> Callable[[Iterable[Json]], Iterator[Json]]:
    """Passes on what the loops of one rendering go through, until that is too much."""
    left = MAX_SIZE

    def steps(items: Iterable[Json]) -> Iterator[Json]:
        nonlocal left
        for item in items:
            left -= 1
            if left < 0:
                raise Refused("its loops do not end soon enough")
            yield item

    return steps


def _mistake(env: SandboxedEnvironment, error: TemplateSyntaxError, text: str) -> str:
    message = (error.message or "wrong syntax").rstrip(".")
    unknown = _UNKNOWN.match(message)
    if unknown is not None:
        known = env.filters if unknown[1] == "filter" else env.tests
        near = nearest(unknown[2], known)
        message = f"unknown {unknown[1]} {unknown[2]!r}" + (f"; did you mean {near!r}?" if near else "")
    return f"line {error.lineno}: {message}" if "\n" in text else message
