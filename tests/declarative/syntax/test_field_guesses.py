import pytest

from cdk.base.values import Json
from cdk.declarative.components import register
from cdk.declarative.model.component import Component
from cdk.declarative.syntax.field_guesses import field_guesses

register()


@pytest.mark.parametrize(
    ("kind", "name", "owners"),
    [
        ("HttpRequester", "paginator", "SimpleRetriever"),
        ("SimpleRetriever", "incremental_sync", "DeclarativeStream"),
        ("DeclarativeStream", "partition_router", "AsyncRetriever, SimpleRetriever"),
    ],
)
def test_a_component_that_has_no_effect_where_it_is_belongs_elsewhere(kind: str, name: str, owners: str) -> None:
    misplaced: Json = {name: {"type": "NoPagination"}}

    guesses = list(field_guesses(Component.registry[kind], misplaced, {}))

    assert guesses == [(name, f"the field {name!r} of {kind} is ignored; it is a field of {owners}: move it there")]


def test_what_parameters_bring_and_what_is_no_component_may_be_anywhere() -> None:
    paginator: Json = {"type": "NoPagination"}
    inherited: Json = {"paginator": paginator, "$parameters": {"paginator": paginator}}
    requester = Component.registry["HttpRequester"]

    assert list(field_guesses(requester, inherited, {})) == []
    assert list(field_guesses(requester, {"paginator": {"page": 1}, "retriever": "users"}, {})) == []
