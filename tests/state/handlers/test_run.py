from datetime import timedelta
from pathlib import Path

import pytest

from cdk import BadState, ConfigError, StateConflict
from cdk.base.values import Json
from cdk.state import Kind, Mode, StatefulOptions, StateKey, StateLog, open_session, stateful_run
from cdk.state.stores.local import LocalStore
from cdk.state.stores.memory import MemoryStore

KEY = StateKey("shop")
KIND = Kind("test/kind")


def test_the_names_that_people_know_are_understood() -> None:
    options = StatefulOptions.parse(
        {
            "enabled": True,
            "ignore_old_state": False,
            "ignore_new_state": False,
            "remove_stale_metadata": False,
            "fail_safe_threshold": 20,
            "force_rerun": True,
            "max_checkpoint_state_size": 1000,
            "state_provider": {"type": "memory"},
            "settle": "90m",
        }
    )

    assert (options.fail_safe_threshold, options.settle) == (20.0, timedelta(minutes=90))


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ({"force_reurn": True}, "stateful_ingestion.force_reurn: unknown key; did you mean 'force_rerun'?"),
        ({"fail_safe_threshold": 101}, "stateful_ingestion.fail_safe_threshold: found 101, expected 100 or less"),
        ({"fail_safe_threshold": -1}, "stateful_ingestion.fail_safe_threshold: found -1"),
        (
            {"settle": "soon"},
            "stateful_ingestion.settle: found 'soon', expected a duration such as 500ms, 30s, 90m, 6h or 2d",
        ),
        ({"settle": "9" * 99 + "d"}, "stateful_ingestion.settle: found '999"),
        ({"bucket_duration": "MONTH"}, "stateful_ingestion.bucket_duration: found 'MONTH', expected 'HOUR', 'DAY' or"),
        ({"max_checkpoint_state_size": 0}, "stateful_ingestion.max_checkpoint_state_size: found 0"),
        (
            {"state_provider": "postgresql://user:secret@host/db"},
            "stateful_ingestion.state_provider: found a string, expected an object",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place_and_without_secrets(block: dict[str, Json], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        StatefulOptions.parse(block)

    assert str(refused.value).startswith(words)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "preview", "mode"),
    [
        ({"enabled": True}, False, Mode()),
        ({"enabled": True, "ignore_old_state": True}, False, Mode("ignore")),
        ({"enabled": True, "force_rerun": True}, False, Mode("ignore")),
        ({"enabled": True, "ignore_new_state": True}, False, Mode("latest", "none")),
        ({"enabled": True}, True, Mode("latest", "none")),
        ({"enabled": True, "force_rerun": True}, True, Mode("ignore", "none")),
        ({}, False, Mode("ignore", "none")),
    ],
)
def test_options_choose_the_mode_of_the_session(options: dict[str, Json], preview: bool, mode: Mode) -> None:  # noqa: FBT001 - a column of the table above
    assert StatefulOptions(**options).mode(preview=preview) == mode


def test_the_log_is_opened_where_it_is_said_to_lie(tmp_path: Path) -> None:
    provider = {"type": "local", "config": {"path": str(tmp_path / "state")}}
    options = StatefulOptions(enabled=True, state_provider=provider, max_checkpoint_state_size=10)
    options.open_log(KEY, preview=True)
    made = (tmp_path / "state").exists()
    log = options.open_log(KEY)

    assert not made
    assert isinstance(log.store, LocalStore)
    with pytest.raises(ConfigError, match="state_provider: is missing"):
        StatefulOptions(enabled=True).open_log(KEY)


def test_what_is_not_enabled_needs_no_store_and_sees_none() -> None:
    damaged = MemoryStore()
    damaged.create(KEY, 1, b"{}")
    with stateful_run(StateLog(damaged, KEY), StatefulOptions(), mode=Mode("at:7")) as run:
        assert (run.session.slots, run.writes) == ([], False)
    with pytest.raises(BadState), stateful_run(StateLog(damaged, KEY), StatefulOptions(enabled=True)):
        pass

    assert isinstance(StatefulOptions().open_log(KEY).store, MemoryStore)


@pytest.mark.parametrize(("read", "shown"), [("latest", 2), ("ignore", None), ("at:1", 1)])
def test_a_run_knows_what_stands_whatever_it_may_see(read: str, shown: Json) -> None:
    log = StateLog(MemoryStore(), KEY)
    for value in (1, 2):
        with open_session(log) as session:
            session.propose("global:", KIND.of(value))
            session.commit("final")
    with stateful_run(log, StatefulOptions(enabled=True), mode=Mode(read)) as run:
        assert (run.shown("global:", KIND), run.newest_value("global:", KIND)) == (shown, 2)
        assert run.newest_value("global:other", KIND) is None


def test_one_run_at_a_time(tmp_path: Path) -> None:
    log, options = StateLog(LocalStore(tmp_path), KEY), StatefulOptions(enabled=True)
    with stateful_run(log, options), pytest.raises(StateConflict), stateful_run(log, options):
        pass
