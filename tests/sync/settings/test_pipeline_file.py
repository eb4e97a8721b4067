from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cdk import Source
from cdk.base.errors import ConfigError
from cdk.base.secret_masking import Secrets
from cdk.base.values import Json
from cdk.lake.storage.credentials import Kind, options_of, secrets_of
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.settings.pipeline_file import FollowSourceOptions, Pipeline, StreamOptions
from cdk.sync.settings.stream_options import RemoveStaleOptions

NAME = "letters, digits, `.`, `_` and `-`, a letter or digit first, at most 200"
LEAST = """\
name: shop
source: {connector: shop}
target: {path: lake}
"""


def load(folder: Path, text: str, **environ: str) -> Pipeline:
    path = folder / "pipeline.yaml"
    path.write_text(text)
    return Pipeline.load(path, lambda *_: environ)


def error(folder: Path, text: str, **environ: str) -> list[str]:
    """The lines of the error, without the folder."""
    with pytest.raises(ConfigError) as caught:
        load(folder, text, **environ)
    return str(caught.value).replace(f"{folder}/", "").splitlines()


def test_three_lines_are_enough(tmp_path: Path) -> None:
    pipeline = load(tmp_path, LEAST)

    assert pipeline.name == "shop"
    assert pipeline.source.connector == "shop"
    assert pipeline.config == {}
    assert pipeline.streams is None
    assert (pipeline.checkpoint_interval, pipeline.concurrency) == (timedelta(seconds=30), None)
    assert (pipeline.spark.master, pipeline.spark.conf) == (None, {})
    assert pipeline.target.format == "delta"


def test_a_path_may_be_a_string(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = load(tmp_path, LEAST)
    monkeypatch.chdir(tmp_path)

    assert Pipeline.load(f"{tmp_path}/pipeline.yaml") == pipeline
    assert Path(Pipeline.load("pipeline.yaml").target.path).resolve() == tmp_path / "lake"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0s", 0), ("500ms", 0.5), ("30s", 30), ("30 s", 30), ("1.5m", 90), ("2h", 7200), (" 5m ", 300)],
)
def test_a_duration_has_a_unit(tmp_path: Path, text: str, seconds: float) -> None:
    pipeline = load(tmp_path, f"{LEAST}checkpoint_interval: '{text}'\n")

    assert pipeline.checkpoint_interval == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["30", "thirty", "-5s", "5 days", "[5s]", "true", "9999999999999999h", "''"])
def test_what_is_no_duration_is_refused_with_an_example(tmp_path: Path, text: str) -> None:
    (line,) = error(tmp_path, f"{LEAST}checkpoint_interval: {text}\n")

    assert line.startswith("pipeline.yaml:4 checkpoint_interval: found ")
    assert line.endswith("expected a duration such as 500ms, 30s, 90m, 6h or 2d")


@pytest.mark.parametrize("text", ["500ms", "90m", "1.5h", "2d", "1w"])
def test_durations_are_written_alike_in_every_place(tmp_path: Path, text: str) -> None:
    pipeline = load(
        tmp_path,
        f"{LEAST}checkpoint_interval: {text}\nskip_redundant_runs: {{settle: {text}}}\nstreams:\n"
        f"  users: {{forget_partitions_after: {text}, follow_source: {{max_validator_age: {text}}}}}\n",
    )
    assert pipeline.skip_redundant_runs is not None
    assert pipeline.streams is not None
    users = pipeline.streams["users"]
    assert users.follow_source is not None

    settings = (
        pipeline.skip_redundant_runs.settle,
        users.forget_partitions_after,
        users.follow_source.max_validator_age,
    )
    assert settings == (pipeline.checkpoint_interval,) * 3


@pytest.mark.parametrize(
    ("text", "streams"),
    [
        ("[users, orders]", {"users": StreamOptions(), "orders": StreamOptions()}),
        ("{users: , orders: {}}", {"users": StreamOptions(), "orders": StreamOptions()}),
        ("{users: {primary_key: [a, b]}}", {"users": StreamOptions(primary_key=("a", "b"))}),
        (
            "{o: {sync_mode: incremental, cursor_field: at}}",
            {"o": StreamOptions(sync_mode="incremental", cursor_field="at")},
        ),
        ("{o: {write_mode: overwrite}}", {"o": StreamOptions(write_mode="overwrite")}),
        ("", None),
    ],
)
def test_streams_are_a_list_or_a_map(tmp_path: Path, text: str, streams: Mapping[str, StreamOptions] | None) -> None:
    assert load(tmp_path, f"{LEAST}streams: {text}\n").streams == streams


@pytest.mark.parametrize("text", ["[]", "{}"])
def test_no_stream_at_all_is_refused_rather_than_synced_as_nothing(tmp_path: Path, text: str) -> None:
    (line,) = error(tmp_path, f"{LEAST}streams: {text}\n")

    assert line.startswith("pipeline.yaml:4 streams: found ")
    assert line.endswith("expected 1 or more elements")


@pytest.mark.parametrize("text", ["users", "[{name: users}]", "[1]", "3"])
def test_streams_that_are_no_names_are_refused(tmp_path: Path, text: str) -> None:
    (line,) = error(tmp_path, f"{LEAST}streams: {text}\n")

    assert line.endswith("expected a list of names, or an object of names and options")


def test_a_stream_turned_off_with_false_is_not_taken_for_its_defaults(tmp_path: Path) -> None:
    assert error(tmp_path, f"{LEAST}streams: {{users: false}}\n") == [
        "pipeline.yaml:4 streams.users: found false, expected an object"
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", FollowSourceOptions()),
        ("{}", FollowSourceOptions(max_validator_age=timedelta(hours=24), uncacheable="read")),
        (
            "{max_validator_age: 6h, uncacheable: skip}",
            FollowSourceOptions(max_validator_age=timedelta(hours=6), uncacheable="skip"),
        ),
        ("false", None),
        ("null", None),
    ],
)
def test_following_a_source_is_turned_on_or_described(
    tmp_path: Path, text: str, expected: FollowSourceOptions | None
) -> None:
    pipeline = load(tmp_path, f"{LEAST}streams: {{users: {{follow_source: {text}}}, tags: {{}}}}\n")

    assert pipeline.streams is not None
    assert (pipeline.streams["users"].follow_source, pipeline.streams["tags"].follow_source) == (expected, None)


def test_stale_rows_and_redundant_runs_are_asked_for_by_name(tmp_path: Path) -> None:
    text = """\
streams: {users: {remove_stale: {removal: hard, fail_safe_threshold: 20, fail_safe_min: 0}}, tags: {remove_stale: {}}}
skip_redundant_runs: {start_time: 2024-05-10T00:00:00Z, end_time: "2024-05-11T02:00:00+02:00", settle: 6h}
"""
    pipeline = load(tmp_path, LEAST + text)

    assert pipeline.streams is not None
    users, tags = (pipeline.streams[name].remove_stale for name in ("users", "tags"))
    assert users == RemoveStaleOptions(removal="hard", fail_safe_threshold=20, fail_safe_min=0)
    assert tags == RemoveStaleOptions(removal="soft", fail_safe_threshold=75, fail_safe_min=5, allow_empty=False)
    assert users.guards().fail_safe_threshold == 20
    skip = pipeline.skip_redundant_runs
    assert skip is not None
    assert (skip.start_time, skip.end_time) == (datetime(2024, 5, 10, tzinfo=UTC), datetime(2024, 5, 11, tzinfo=UTC))
    assert (skip.settle, skip.bucket_duration, skip.enabled, skip.force_rerun) == (
        timedelta(hours=6),
        "DAY",
        True,
        False,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "streams: {users: {remove_stale: {action: soft}}}",
            "streams.users.remove_stale.action: unknown key; there is 'accept_removals', 'allow_empty', ",
        ),
        (
            "streams: {users: {remove_stale: {fail_safe_treshold: 5}}}",
            "streams.users.remove_stale.fail_safe_treshold: unknown key; did you mean 'fail_safe_threshold'?",
        ),
        (
            "streams: {users: {remove_stale: {removal: gentle}}}",
            "streams.users.remove_stale.removal: found 'gentle', expected 'soft', 'hard' or 'report'",
        ),
        (
            "streams: {users: {remove_stale: {fail_safe_threshold: 101}}}",
            "streams.users.remove_stale.fail_safe_threshold: found 101, expected 100 or less",
        ),
        (
            "streams: {users: {follow_source: yesterday}}",
            "streams.users.follow_source: found 'yesterday', expected true, false or an object",
        ),
        (
            "streams: {users: {follow_source: {max_validator_ages: 6h}}}",
            "streams.users.follow_source.max_validator_ages: unknown key; did you mean 'max_validator_age'?",
        ),
        (
            "streams: {users: {follow_source: {max_validator_age: 6 days}}}",
            "streams.users.follow_source.max_validator_age: found '6 days', expected a duration such as ",
        ),
        (
            "streams: {users: {follow_source: {uncacheable: ask}}}",
            "streams.users.follow_source.uncacheable: found 'ask', expected 'read' or 'skip'",
        ),
        ("skip_redundant_runs: true", "skip_redundant_runs: found true, expected an object"),
        (
            "skip_redundant_runs: {bucket_durations: DAY}",
            "skip_redundant_runs.bucket_durations: unknown key; did you mean 'bucket_duration'?",
        ),
        (
            "skip_redundant_runs: {bucket_duration: MONTH}",
            "skip_redundant_runs.bucket_duration: found 'MONTH', expected 'HOUR', 'DAY' or 'WEEK'",
        ),
        (
            "skip_redundant_runs: {settle: 6 hours}",
            "skip_redundant_runs.settle: found '6 hours', expected a duration such as 500ms, 30s, 90m, 6h or 2d",
        ),
        (
            "skip_redundant_runs: {start_time: yesterday}",
            "skip_redundant_runs.start_time: found 'yesterday', expected a timestamp such as 2024-05-10T00:00:00Z",
        ),
        (
            "skip_redundant_runs: {start_time: '2024-05-10T00:00:00'}",
            "skip_redundant_runs.start_time: found '2024-05-10T00:00:00', expected a timestamp with a time zone",
        ),
        (
            "skip_redundant_runs: {start_time: '2024-05-11T00:00:00Z', end_time: '2024-05-10T00:00:00Z'}",
            "skip_redundant_runs: found an object with start_time, end_time, expected a start_time before the end_time",
        ),
        ("state: {state_provider: {tipe: local}}", "state.state_provider.tipe: unknown key; did you mean 'type'?"),
    ],
)
def test_what_is_wrong_with_them_is_said_with_its_place(tmp_path: Path, text: str, expected: str) -> None:
    lines = error(tmp_path, f"{LEAST}{text}\n")

    assert any(line.startswith(f"pipeline.yaml:4 {expected}") for line in lines)


def test_variables_are_put_in_everywhere(tmp_path: Path) -> None:
    text = """\
name: ${WHO}-orders
source: {connector: shop, config: {token: "Bearer ${TOKEN}", pages: [a, "${A}${B}"]}}
target: {path: "${LAKE}/raw"}
concurrency: ${N}
"""
    pipeline = load(tmp_path, text, WHO="acme", TOKEN="t", A="x", B="${A}", LAKE="/lake", N="8")

    assert pipeline.name == "acme-orders"
    assert pipeline.config == {"token": "Bearer t", "pages": ["a", "x${A}"]}
    assert pipeline.target.path == "/lake/raw"
    assert pipeline.concurrency == 8


def test_every_variable_that_is_not_set_is_named_with_its_place(tmp_path: Path) -> None:
    text = "name: ${A}\nsource:\n  connector: shop\n  config: {keys: [x, '${B}${SET}${C}']}\ntarget: {path: '${C}'}\n"

    lines = error(tmp_path, text, SET="hunter2")

    assert [line.partition(";")[0] for line in lines] == [
        "pipeline.yaml:1 name: the environment variable A is not set",
        "pipeline.yaml:4 source.config.keys[1]: the environment variable B is not set",
        "pipeline.yaml:4 source.config.keys[1]: the environment variable C is not set",
        "pipeline.yaml:5 target.path: the environment variable C is not set",
    ]


@pytest.mark.parametrize("text", ["$HOME", "${}", "${1A}", "$a-b", "100$"])
def test_what_only_looks_like_a_variable_stays(tmp_path: Path, text: str) -> None:
    source = f"{{connector: shop, config: {{k: '{text}'}}}}"

    assert load(tmp_path, LEAST.replace("{connector: shop}", source)).config == {"k": text}


def test_a_slip_in_a_variable_is_told_with_its_place_and_sparks_own_stay(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("url: x\ntoken: ${env:TOKEN}\n")
    (tmp_path / "config.json").write_text('{\n\t"token": "${TO-KEN}"\n}')
    spark = "spark: {conf: {a: '${system:user.name} ${SET}'}}\n"
    text = LEAST.replace("connector: shop", "connector: shop, config: config.yaml") + spark
    literally = "`$${` for the characters themselves"

    assert error(tmp_path, text, SET="x") == [
        f"config.yaml:2 token: found ${{env:TOKEN}}, which is not a variable; expected ${{TOKEN}}, or {literally}"
    ]
    assert error(tmp_path, text.replace(".yaml", ".json"), SET="x") == [
        f"config.json:2 token: found ${{TO-KEN}}, which is not a variable; expected ${{TO_KEN}}, or {literally}"
    ]
    assert load(tmp_path, LEAST + spark, SET="x").spark.conf == {"a": "${system:user.name} x"}


@pytest.mark.parametrize("file", ["config.yaml", "config.json"])
def test_a_config_in_another_folder_has_the_variables_and_files_of_its_own(tmp_path: Path, file: str) -> None:
    folder = tmp_path / "conf"
    folder.mkdir()
    (folder / file).write_text('{"a": "${A}", "b": "${B}", "c": "${file:c.txt}"}')
    (folder / ".env").write_text("A=of the config")
    (folder / "c.txt").write_text("a file of the config")
    (tmp_path / ".env").write_text("A=of the pipeline\nB=of the pipeline")
    path, secrets = tmp_path / "pipeline.yaml", Secrets()
    path.write_text(LEAST.replace("connector: shop", f"connector: shop, config: conf/{file}"))

    config = Pipeline.load(path, secrets=secrets).config

    assert config == {"a": "of the config", "b": "of the pipeline", "c": "a file of the config"}
    assert secrets.mask(str([*config.values()])) == "['****', '****', '****']"


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    assert load(tmp_path, LEAST).target.path == str(tmp_path / "lake")
    assert load(tmp_path, LEAST.replace("lake", "/srv/lake")).target.path == "/srv/lake"
    assert load(tmp_path, LEAST.replace("lake", "~/lake")).target.path == str(Path.home() / "lake")


def test_the_path_of_a_log_on_disk_is_relative_to_the_file(tmp_path: Path) -> None:
    def log(path: str) -> str:
        provider = load(tmp_path, f"{LEAST}state: {{state_provider: {{type: local, config: {{path: '{path}'}}}}}}\n")
        assert provider.state.state_provider is not None
        return str(provider.state.state_provider.config["path"])

    assert log("states") == str(tmp_path / "states")
    assert log("/srv/states") == "/srv/states"
    assert log("s3://bucket/states") == "s3://bucket/states"


@pytest.mark.parametrize("path", ["ftp://host/lake", "S3://bucket", "''"])
def test_what_is_neither_a_folder_nor_a_known_address_is_refused(tmp_path: Path, path: str) -> None:
    (line,) = error(tmp_path, LEAST.replace("lake", path))

    assert line.startswith(f"pipeline.yaml:3 target.path: found '{path.strip(chr(39))}', expected a folder")
    assert "s3://" in line


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("dbfs:/lake", "'dbfs:/lake' is neither, where Databricks shows it as the folder /dbfs/lake"),
        ("s3:/bucket/lake", "'s3:/bucket/lake' is neither"),
        ("file:/srv/lake", "'file:/srv/lake' is neither"),
        ("main.raw.orders", "'main.raw.orders' is the name of a table in a catalog: give the folder"),
    ],
)
def test_what_only_looks_like_a_folder_is_refused_by_name(tmp_path: Path, path: str, expected: str) -> None:
    (line,) = error(tmp_path, LEAST.replace("lake", f'"{path}"'))

    assert line.startswith(f"pipeline.yaml:3 target.path: found '{path}', expected a folder")
    assert expected in line


@pytest.mark.parametrize("path", ["C:\\lake", "./main.raw.orders", "raw.orders", "lake.v1.2"])
def test_a_folder_may_have_dots_and_be_on_a_disk_with_a_letter(tmp_path: Path, path: str) -> None:
    assert load(tmp_path, LEAST.replace("lake", f"'{path}'")).target.path == str(tmp_path / path)


@pytest.mark.parametrize("path", ["s3://bucket/lake", "gs://bucket", "file:///srv/lake"])
def test_an_address_stays_as_it_is(tmp_path: Path, path: str) -> None:
    assert load(tmp_path, LEAST.replace("lake", f'"{path}"')).target.path == path


def test_options_of_a_store_may_be_variables_and_are_never_shown(tmp_path: Path) -> None:
    storage = "storage: {AWS_SECRET_ACCESS_KEY: '${KEY}', AWS_ALLOW_HTTP: true}"
    pipeline = load(tmp_path, LEAST.replace("{path: lake}", f"{{path: 's3://bucket', {storage}}}"), KEY="hunter2")
    (line,) = error(
        tmp_path, LEAST.replace("{path: lake}", "{path: lake, storage: {AWS_SECRET_ACCESS_KEY: [hunter2]}}")
    )

    assert pipeline.target.storage == {"AWS_SECRET_ACCESS_KEY": "hunter2", "AWS_ALLOW_HTTP": True}
    assert "hunter2" not in repr(pipeline)
    assert line.startswith("pipeline.yaml:3 target.storage.AWS_SECRET_ACCESS_KEY: found a list, expected ")


FILES = [
    ("config.json", '{"token": "${TOKEN}", "pages": [1]}'),
    ("config.yaml", "token: ${TOKEN}\npages: [1]\n"),
    ("config.yml", "{token: '${TOKEN}', pages: [1]}"),
]


@pytest.mark.parametrize(("name", "content"), FILES)
def test_the_config_may_be_a_file_beside_the_pipeline(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)

    pipeline = load(tmp_path, LEAST.replace("shop}", f"shop, config: {name}}}"), TOKEN="t")

    assert pipeline.config == {"token": "t", "pages": [1]}


@pytest.mark.parametrize(("name", "content"), FILES)
def test_a_variable_that_a_config_file_misses_is_named_with_that_file(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)

    (line,) = error(tmp_path, LEAST.replace("shop}", f"shop, config: {name}}}"))

    assert line.startswith((f"{name} token: the environment", f"{name}:1 token: the environment"))


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("config.json", None, "cannot be read: "),
        ("config.json", "{hunter2", "is not JSON: "),
        ("config.json", '["hunter2"]', "found a list, expected the connector's config, an object"),
        ("config.json", '"hunter2"', "found a string, expected the connector's config, an object"),
        ("config.yaml", None, "cannot be read: "),
        ("config.yaml", "", "found null, expected the connector's config, an object"),
        ("config.yaml", "token: [hunter2", "is not YAML: "),
    ],
)
def test_a_config_file_that_is_none_is_named_and_not_shown(
    tmp_path: Path, name: str, content: str | None, problem: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)

    (line,) = error(tmp_path, LEAST.replace("shop}", f"shop, config: {name}}}"))

    assert line.startswith(name)
    assert problem in line
    assert "hunter2" not in line


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    text = """\
name: my shop
source: {}
streams:
  users:
    sync_mode: appending
    primary_keys: id
    primary_key: 5
  orders: [x]
concurrency: 0
checkpoint_interval: 30
checkpoint_intervall: 30s
"""
    assert sorted(error(tmp_path, text)) == sorted(
        [
            "pipeline.yaml:1 target: is missing",
            "pipeline.yaml:6 streams.users.primary_keys: unknown key; did you mean 'primary_key'?",
            "pipeline.yaml:11 checkpoint_intervall: unknown key; did you mean 'checkpoint_interval'?",
            "pipeline.yaml:1 name: found 'my shop', expected " + NAME,
            "pipeline.yaml:2 source: found an empty object, expected either `connector` or `manifest`, not both",
            "pipeline.yaml:5 streams.users.sync_mode: found 'appending', expected 'full_refresh' or 'incremental'",
            "pipeline.yaml:7 streams.users.primary_key: found 5, expected a string or a list",
            "pipeline.yaml:8 streams.orders: found a list of 1, expected an object",
            "pipeline.yaml:9 concurrency: found 0, expected 1 or more",
            "pipeline.yaml:10 checkpoint_interval: found 30, expected a duration such as 500ms, 30s, 90m, 6h or 2d",
        ]
    )


@pytest.mark.parametrize(
    ("section", "line"),
    [
        ("sorce: {}", "sorce: unknown key; did you mean 'source'?"),
        ("spark: {confs: {}}", "spark.confs: unknown key; did you mean 'conf'?"),
        ("spark: {executor: 1}", "spark.executor: unknown key; there is 'conf', 'master', 'start'"),
        ("streams: {a: {cursor: x}}", "streams.a.cursor: unknown key; did you mean 'cursor_field'?"),
    ],
)
def test_an_unknown_key_comes_with_the_nearest_known_one(tmp_path: Path, section: str, line: str) -> None:
    assert error(tmp_path, f"{LEAST}{section}\n") == [f"pipeline.yaml:4 {line}"]


@pytest.mark.parametrize("source", ["{connector: a, manifest: b}", "{}", "{config: {}}"])
def test_a_source_is_a_connector_or_a_manifest(tmp_path: Path, source: str) -> None:
    (line,) = error(tmp_path, LEAST.replace("{connector: shop}", source))

    assert line.startswith("pipeline.yaml:2 source: found ")
    assert line.endswith("expected either `connector` or `manifest`, not both")


@pytest.mark.parametrize("name", ["a/b", "..", ".", "-a", "_cdk", "a b", "é", "''", "x" * 201, "5", "[a]"])
def test_a_name_that_could_be_a_path_is_refused(tmp_path: Path, name: str) -> None:
    (line,) = error(tmp_path, LEAST.replace("name: shop", f"name: {name}"))

    assert line.startswith("pipeline.yaml:1 name: found ")


@pytest.mark.parametrize("text", ["", "# nothing", "- a", "just text", "5"])
def test_a_file_that_is_no_pipeline_is_refused(tmp_path: Path, text: str) -> None:
    (line,) = error(tmp_path, text)

    assert line.startswith("pipeline.yaml: found ")
    assert line.endswith("expected the settings of a pipeline")


def test_what_is_no_yaml_is_named_with_line_and_column(tmp_path: Path) -> None:
    (line,) = error(tmp_path, f"{LEAST}streams: [a\n")

    assert line.startswith("pipeline.yaml:5:1: is not YAML: ")


@pytest.mark.parametrize(
    "text",
    [
        "confg: {password: hunter2}",
        "confg: hunter2",
        "source: {config: {password: hunter2}}",
        "source: {connector: x, config: [hunter2]}",
        "source: {connector: x, manifest: y, config: {password: hunter2}}",
        "source: {connector: x, config: {password: hunter2}, extra: hunter2}",
        "source: {connector: x, config: {password: hunter2, '${UNSET}': 1, other: '${UNSET}'}}",
        "source: {connector: [x], config: {password: hunter2}}",
        "source: [{config: {password: hunter2}}]",
        "spark: {conf: {fs.s3a.secret.key: [hunter2]}}",
        "spark: {conf: [hunter2]}",
        "spark: {conf: hunter2}",
        "spark: [hunter2]",
        "name: '${SECRET}'",
        "checkpoint_interval: '${SECRET}'",
        "concurrency: '${SECRET}'",
        "streams: {users: '${SECRET}'}",
        "streams: ['${SECRET}', [hunter2]]",
    ],
)
def test_no_secret_is_in_an_error(tmp_path: Path, text: str) -> None:
    lines = error(tmp_path, text, SECRET="hunter2!")

    assert not [line for line in lines if "hunter2" in line]


@pytest.mark.parametrize("config", ["${VALUE}.json", "{inline: '${VALUE}'}"])
def test_values_of_variables_are_secrets_but_those_of_names_paths_and_numbers(tmp_path: Path, config: str) -> None:
    (tmp_path / "plain.json").write_text('{"inline": "${VALUE}"}')
    plain = "name: '${NAME}'\nsource: {manifest: '${MANIFEST}', config: '${CONFIG}'}\ntarget: {path: 'x/${TARGET}'}\n"
    text = f"{plain}concurrency: '${{NUMBER}}'\nmax_age: '${{AGE}}'\nspark: {{conf: {{a: '${{CONF}}'}}}}\n"
    shown = {"NAME": "shop", "MANIFEST": "shop.yaml", "CONFIG": "plain.json", "TARGET": "tables", "NUMBER": "77"}
    path, secrets = tmp_path / "pipeline.yaml", Secrets()
    path.write_text(text.replace("'${CONFIG}'", config) if "inline" in config else text)

    environ = {**shown, "AGE": "2h", "VALUE": "s3cr3t", "CONF": "hidden"}
    Pipeline.load(path, lambda *_: environ, secrets)

    assert secrets.mask(" ".join(shown.values())) == " ".join(shown.values())
    assert secrets.mask("2h s3cr3t hidden") == "2h **** ****"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "source", "target", "streams", "spark", "conf", "config", "path", "connector", "x"]
            ),
            inner,
            max_size=5,
        )
    ),
)


@given(VALUES)
def test_no_file_raises_anything_but_a_config_error(tmp_path_factory: pytest.TempPathFactory, value: Json) -> None:
    path = tmp_path_factory.getbasetemp() / "pipeline.yaml"
    path.write_text(yaml.safe_dump(value))
    with suppress(ConfigError):
        Pipeline.load(path, lambda *_: {})


def test_names_that_people_know_from_elsewhere_are_understood() -> None:
    pipeline = Pipeline.model_validate(
        {
            "pipeline_name": "shop",
            "source": {"connector": "shop"},
            "target": {"path": "x"},
            "streams": {"users": {"remove_stale_metadata": True}, "orders": {"remove_stale_metadata": False}},
        }
    )

    assert pipeline.name == "shop"
    assert pipeline.streams is not None
    assert pipeline.streams["users"].remove_stale == RemoveStaleOptions()
    assert pipeline.streams["orders"].remove_stale is None


@pytest.mark.parametrize(
    ("kind", "short", "full"),
    [
        ("s3", "access_key_id", "AWS_ACCESS_KEY_ID"),
        ("s3", "aws_secret_access_key", "AWS_SECRET_ACCESS_KEY"),
        ("s3", "endpoint", "AWS_ENDPOINT_URL"),
        ("s3", "allow_http", "AWS_ALLOW_HTTP"),
        ("az", "account_key", "AZURE_STORAGE_ACCOUNT_KEY"),
        ("az", "tenant_id", "AZURE_STORAGE_TENANT_ID"),
        ("gs", "skip_signature", "GOOGLE_SKIP_SIGNATURE"),
    ],
)
def test_the_storage_of_tables_knows_the_names_of_the_stores_of_logs(kind: Kind, short: str, full: str) -> None:
    more = {"AWS_SECRET_ACCESS_KEY": "s", "AWS_ACCESS_KEY_ID": "k"} if "access_key" in short else {}
    more |= {"AZURE_STORAGE_CLIENT_ID": "1", "AZURE_STORAGE_CLIENT_SECRET": "2"} if short == "tenant_id" else {}
    more.pop(full, None)

    assert dict(options_of(kind, {short: "value", **more}, {}))[full] == "value"
    assert ("value" in secrets_of({short: "value"})) is ("key" in short)
    with pytest.raises(ConfigError, match="is set twice"):
        options_of(kind, {short: "value", full: "value"}, {})


@pytest.mark.parametrize(
    ("pipeline", "source", "problem"),
    [
        ("p.yaml", Source(), r"found str as pipeline, expected a Pipeline; pass Pipeline\.load\('p\.yaml'\)"),
        (Path("p.yaml"), Source(), r"found \w+Path as pipeline, expected a Pipeline; pass Pipeline\.load\('p\.yaml'\)"),
        ({"name": "p"}, Source(), r"found dict as pipeline, expected a Pipeline; pass Pipeline\.load\(PATH\)"),
        (None, Source, "found the class Source as source, expected a Source"),
        (None, "shop", "found str as source, expected a Source"),
    ],
)
def test_a_sync_names_the_argument_that_is_of_another_type(
    tmp_path: Path, pipeline: object, source: object, problem: str
) -> None:
    run: Callable[..., object] = SyncRunner

    with pytest.raises(ConfigError, match=problem):
        run(pipeline or load(tmp_path, LEAST), source)
