import pytest

from cdk.base.secret_names import looks_secret


@pytest.mark.parametrize(
    "name", ["api_key", "X-API-Key", "Authorization", "access_token", "accessToken", "token", "pwd"]
)
def test_names_of_secrets_are_known(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        *("page_token", "nextPageToken", "start_key", "page", "monkey", "author"),
        *("sort_key", "primaryKey", "authorization_url", "token_endpoint", "accessTokenUri", "token_type"),
        "Access-Control-Allow-Credentials",
    ],
)
def test_names_of_what_is_no_credential_are_not_secret(name: str) -> None:
    assert not looks_secret(name)
