"""The sink: whole lines, in order, whoever writes them and whoever stops them."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from cdk.cli.output import Output, ReaderGone
from cdk.protocol.messages import AirbyteLogMessage, AirbyteMessage, Level, Type


def lines_from(descriptor: int) -> list[bytes]:
    with os.fdopen(descriptor, "rb") as file:
        return file.readlines()


def test_pages_larger_than_a_pipe_arrive_whole_from_several_threads() -> None:
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    output = Output(write_end)
    pages = [b"%d" % digit * 300_000 + b"\n" for digit in range(4)]

    with ThreadPoolExecutor(5) as pool:
        got = pool.submit(lines_from, read_end)
        list(pool.map(output.write, pages))
        os.close(write_end)

    assert sorted(got.result()) == pages


def test_a_message_is_one_line() -> None:
    read_end, write_end = os.pipe()

    Output(write_end).write_message(
        AirbyteMessage(type=Type.LOG, log=AirbyteLogMessage(level=Level.INFO, message="a\nb"))
    )

    os.close(write_end)
    assert lines_from(read_end) == [b'{"type":"LOG","log":{"level":"INFO","message":"a\\nb"}}\n']


def test_a_reader_that_went_away_is_no_error_a_stream_could_swallow() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)

    with pytest.raises(ReaderGone):
        Output(write_end).write(b"x\n")

    assert not issubclass(ReaderGone, Exception)
    os.close(write_end)


def test_an_interruption_waits_for_the_end_of_the_line() -> None:
    read_end, write_end = os.pipe()
    output, page = Output(write_end), b"x" * 300_000 + b"\n"
    begun = threading.Event()

    def read_all() -> bytes:
        with os.fdopen(read_end, "rb") as file:
            head = file.read(1)
            begun.set()
            return head + file.read()

    with ThreadPoolExecutor(3) as pool:
        got = pool.submit(read_all)
        writing = pool.submit(output.write, page)
        begun.wait()
        try:
            output.interrupt()
        except KeyboardInterrupt:
            writing.result()
        else:
            with pytest.raises(KeyboardInterrupt):
                writing.result()
        os.close(write_end)

    assert got.result() == page


def test_an_interruption_between_lines_is_at_once() -> None:
    read_end, write_end = os.pipe()

    with pytest.raises(KeyboardInterrupt):
        Output(write_end).interrupt()

    os.close(read_end)
    os.close(write_end)
