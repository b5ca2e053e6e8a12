"""The evaluator put together, in process: the parts that its process tests do not see."""

import pytest

from evaluator.service import authority


@pytest.mark.parametrize(
    ("host", "spelled"),
    [
        ("127.0.0.1", "127.0.0.1:9"),
        ("::1", "[::1]:9"),
        ("::", "[::]:9"),
        ("evaluator.plimsoll", "evaluator.plimsoll:9"),
        ("", ":9"),
    ],
)
def test_addresses_are_spelled_as_grpc_reads_them(host, spelled):
    assert authority(host, 9) == spelled
