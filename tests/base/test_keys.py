from cdk.base.keys import dotted


def test_a_path_is_written_as_people_write_it() -> None:
    assert dotted(["streams", 2, "name"]) == "streams[2].name"
    assert dotted([2, "name"]) == "[2].name"
    assert dotted([]) == ""
