"""Random changes to JSON values, and the values that hostile input is made of."""

import random
from collections.abc import Iterator
from copy import deepcopy
from typing import TypeAlias

from cdk.base.values import Json

Keys: TypeAlias = tuple[str | int, ...]

JINJA = [
    "{{ config }}",
    "{{",
    "{{ }}",
    "}}",
    "{% for x in range(10**9) %}x{% endfor %}",
    "{% for x in range(100000) %}{% for y in range(100000) %}x{% endfor %}{% endfor %}",
    "{{ 'x' * 10**10 }}",
    "{{ [0] * 10**10 }}",
    "{{ 10 ** 10 ** 10 }}",
    "{{ 9**9**9 }}",
    "{{ ''.__class__.__mro__ }}",
    "{{ config.__init__.__globals__ }}",
    "{{ 1/0 }}",
    "{{ 1 // 0 }}",
    "{{ nothing.at.all }}",
    "{{ record['a']['b']['c'] }}",
    "{{ response.x.y.z }}",
    "{{ response['data'] }}",
    "{{ 'a' | int('x') }}",
    "{{ '%1000000000s' % 'x' }}",
    "{{ '{:1000000000}'.format('x') }}",
    "{{ 'x' | center(1000000000) }}",
    "{{ now_utc() + duration('P9999999999D') }}",
    "{{ timestamp('x') }}",
    "{{ timestamp(10**30) }}",
    "{{ day_delta(10**10) }}",
    "{{ format_datetime('never', '%Y') }}",
    "{{ format_datetime(config['start'], '%Q%') }}",
    "{{ str_to_datetime('0000') }}",
    "{{ duration('P') }}",
    # Patterns that backtrack without end are left out: Python's `re` cannot be stopped.
    "{{ config['start'] | regex_search('((((') }}",
    "{{ config['api_key'] | base64encode }}",
    "{{ config['api_key'] | hash('md5') }}",
    "{{ max([]) }}",
    "{{ min() }}",
    "{{ raise }}",
    "{% set x = 1 %}{{ x }}",
    "{% include 'x' %}",
    "{{ cycler }}",
    "{{ namespace(a=1) }}",
    "{{ lipsum(n=100000) }}",
    "{{ 'x' | batch(0) | list }}",
    "{{ [1,2] | map('nope') | list }}",
    "{{ config | tojson }}",
    "{{ " + "(" * 500 + "1" + ")" * 500 + " }}",
    "{{ " + "not " * 5000 + "1 }}",
    "{{ " + "1 + " * 5000 + "1 }}",
    "\ud800",
    "{{ '\\ud800' }}",
]
SCALARS: list[Json] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400, 1.5, 1e308, float("nan"), float("inf")),
    *("", " ", "0", "null", "\0", "é" * 3, "x" * 100_000, "../../../etc/passwd", "%", "%00", "http://[", "a\r\nb: c"),
    *(
        "file:///etc/passwd",
        "https://[::1",
        "//evil",
        "P1D",
        "P0D",
        "PT0S",
        "-P1D",
        "P99999999999Y",
        "PT0.000001S",
        "P",
    ),
    *("0001-01-01", "9999-12-31T23:59:59Z", "2024-02-30", "not a date", "%Y", "%s", "(", "(a+)+$", "*", "**", "a/b/c"),
    *([], {}, [[]], [None], {"": None}, {"type": "DeclarativeSource"}, {"$ref": "#/definitions/none"}, {"$ref": "#"}),
    *(
        {"$ref": 1},
        {"type": None},
        {"type": []},
        {"type": "Nope"},
        {"type": "CustomRequester", "class_name": "os.system"},
    ),
    *({"$parameters": 1}, {"$parameters": {"name": "{{ parameters['name'] }}"}}, "#/streams/0", "utf-16", "no-codec"),
]


def deep(levels: int, *, lists: bool) -> Json:
    value: Json = 1
    for _ in range(levels):
        value = [value] if lists else {"a": value}
    return value


def mutated(value: Json, chance: random.Random, most: int = 3) -> Json:
    """A copy of a value with one change or several."""
    value = _copy(value)
    for _ in range(chance.randint(1, most)):
        places = list(_places(value, ()))
        keys = chance.choice(places) if places else ()
        value = _change(value, keys, chance, places)
    return value


def _places(value: Json, keys: Keys) -> Iterator[Keys]:
    if len(keys) > 50:
        return
    if isinstance(value, dict):
        for name, part in value.items():
            yield (*keys, name)
            yield from _places(part, (*keys, name))
    elif isinstance(value, list):
        for i, part in enumerate(value):
            yield (*keys, i)
            yield from _places(part, (*keys, i))


def _change(value: Json, keys: Keys, chance: random.Random, places: list[Keys]) -> Json:
    if not keys:
        return deepcopy(chance.choice(SCALARS))
    holder = value
    for key in keys[:-1]:
        holder = holder[key]
    last = keys[-1]
    old = holder[last]
    match chance.randrange(9):
        case 0 | 1:
            holder[last] = deepcopy(chance.choice(SCALARS))
        case 2 | 3:
            holder[last] = chance.choice(JINJA)
        case 4:
            del holder[last]
        case 5:
            holder[last] = [old] if chance.random() < 0.5 else {"a": old}
        case 6:
            # The part of another place: what is right there and wrong here.
            other = value
            for key in chance.choice(places):
                other = other[key]
            holder[last] = _copy(other)
        case 7:
            holder[last] = deep(chance.choice([30, 300, 3000]), lists=chance.random() < 0.5)
        case _:
            there = "/".join(map(str, chance.choice(places)))
            holder[last] = {"$ref": f"#/{there}"}
    return value


def _copy(value: Json) -> Json:
    try:
        return deepcopy(value)
    except RecursionError:
        return None
