import pytest

from cdk import ConfigError
from cdk.state import StateKey


def test_a_key_says_namespace_and_pipeline() -> None:
    assert str(StateKey("shop", "prod")) == "prod/shop"
    assert str(StateKey("shop")) == "default/shop"


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "a\\b", "ü", "a b", "x" * 201, "a\n"])
def test_names_that_could_leave_their_folder_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="found the pipeline"):
        StateKey(name)
    with pytest.raises(ConfigError, match="found the namespace"):
        StateKey("shop", name)
