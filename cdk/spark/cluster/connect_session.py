"""Sessions on a Spark Connect server."""

import re
from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cdk.base.errors import ConfigError
from cdk.base.values import Location
from cdk.spark.cluster.spark_versions import Ability, require

SCHEME = "sc://"
"""The scheme of addresses of Spark Connect servers."""

_MASTER = Location(keys=("spark", "master"))
_TIMEOUT_SECONDS = 20.0  # seconds; without a limit, the client tries a wrong address for ten minutes
_ENVIRONMENT = "spark.executorEnv."


def connect(
    name: str, address: str, conf: Mapping[str, str], *, timeout_seconds: float = _TIMEOUT_SECONDS
) -> SparkSession:
    """Open a session on the server at `address`: `sc://HOST:PORT`, with parameters after `/;`.

    Errors do not show the parameters, which may have a token.
    Raises ConfigError: when the address is invalid, the server does not respond, it refuses a setting, or Spark is too
    old.
    """
    require(Ability.CONNECT)
    host = SCHEME + re.split("[;/?#]", address.removeprefix(SCHEME))[0].rpartition("@")[2]
    try:
        _expect_answer(address, timeout_seconds)
        session = SparkSession.Builder().remote(address).appName(f"spark-cdk {name}").getOrCreate()
    except ImportError as error:
        raise ConfigError(f"{host} needs the extra `connect`: {error}", path=_MASTER) from error
    except ValueError:  # from pyspark, or from the standard library for a port that is not a number
        raise ConfigError(
            f"found {host!r}, expected sc://HOST:PORT, with parameters as /;NAME=VALUE after it", path=_MASTER
        ) from None
    except (PySparkException, TimeoutError) as error:
        raise ConfigError(
            f"no session of Spark Connect at {host}: {error}; start the server, or correct the address", path=_MASTER
        ) from error
    for key, value in conf.items():
        _set(session, key, value)
    return session


def _expect_answer(address: str, timeout_seconds: float) -> None:
    import grpc  # noqa: PLC0415 - an extra
    from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415 - it needs grpc

    if address == SCHEME:
        raise ValueError(address)  # pyspark 4.0 would take it for this machine

    with DefaultChannelBuilder(address).toChannel() as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout_seconds)
        except grpc.FutureTimeoutError:
            raise TimeoutError(f"no response for {timeout_seconds:g} seconds") from None


def _set(session: SparkSession, key: str, value: str) -> None:
    if session.conf.get(key, None) == value:
        return
    refused: Exception | None = None
    try:
        # Spark would accept such a setting, but no executor would ever see it.
        if not key.startswith(_ENVIRONMENT):
            session.conf.set(key, value)
            return
    except PySparkException as error:
        refused = error
    raise ConfigError(
        f"{key} cannot be set under Spark Connect; set it where the server is started, to the same value",
        path=Location(keys=("spark", "conf")),
        detail=str(refused or ""),
    ) from refused
