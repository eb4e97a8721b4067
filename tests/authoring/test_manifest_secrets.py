"""Which texts of a manifest are credentials in plain."""

import pytest

from cdk.authoring.manifest_secrets import plain_secrets
from cdk.base.values import Json
from cdk.declarative.components import register
from cdk.declarative.model.component import Component


def found_in(part: Json) -> list[tuple[str, str]]:
    """The fields below `part`, and their texts."""
    secrets = plain_secrets({"streams": [{"retriever": {"requester": part}}]})
    return [("".join(f"/{key}" for key in keys[4:]), text) for keys, text in secrets]


@pytest.mark.parametrize(
    ("component", "secret"),
    [
        ({"type": "BearerAuthenticator", "api_token": "planted"}, ["/api_token"]),
        ({"type": "ApiKeyAuthenticator", "api_token": "planted", "header": "X-Api-Key"}, ["/api_token"]),
        ({"type": "BasicHttpAuthenticator", "username": "somebody", "password": "planted"}, ["/password"]),
        (
            {"type": "OAuthAuthenticator", "client_id": "some", "client_secret": "planted", "refresh_token": "planted"},
            ["/client_secret", "/refresh_token"],
        ),
        (
            {"type": "JwtAuthenticator", "secret_key": "planted", "passphrase": "planted"},
            ["/secret_key", "/passphrase"],
        ),
        (
            {"type": "RateLimitedMultipleTokenAuthenticator", "tokens": ["planted", "planted"]},
            ["/tokens/0", "/tokens/1"],
        ),
        ({"request_headers": {"X-Api-Key": "planted", "Accept": "text/csv"}}, ["/request_headers/X-Api-Key"]),
        ({"$parameters": {"api_token": "planted"}}, ["/$parameters/api_token"]),
    ],
)
def test_a_credential_in_plain_has_its_place(component: Json, secret: list[str]) -> None:
    assert found_in(component) == [(place, "planted") for place in secret]


@pytest.mark.parametrize(
    "component",
    [
        {"type": "BearerAuthenticator", "api_token": "{{ config['token'] }}"},
        {"type": "BasicHttpAuthenticator", "username": "{{ config['key'] }}", "password": "x"},
        {"type": "OAuthAuthenticator", "client_secret_name": "app_secret", "access_token_name": "the_token"},
        {"type": "OAuthAuthenticator", "refresh_token_error_key": "error", "refresh_token_error_values": ["invalid"]},
        {"request_headers": {"Authorization": "Basic {{ (config['key'] ~ ':') | base64encode }}"}},
    ],
)
def test_expressions_and_names_are_no_credentials(component: Json) -> None:
    assert found_in(component) == []


def test_a_spec_says_of_secrets_what_they_are_called() -> None:
    described = {"api_key": "where it is: https://example.com/keys"}

    assert [*plain_secrets({"spec": {"connection_specification": {"descriptions": described}}})] == []


def test_every_secret_field_is_one_that_its_component_has() -> None:
    register()

    marked = {name: kind for name, kind in Component.registry.items() if kind.secret_fields}

    assert len(marked) == 8
    assert all(kind.secret_fields <= set(kind.__struct_fields__) for kind in marked.values())
