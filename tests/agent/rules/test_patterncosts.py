"""Which patterns take too long: those that people write do not."""

import re

import pytest

from agent.rules.patterncosts import is_dear


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "sd[a-z]+|nvme.*|.*-boot",
        "|".join(f"{name}.*" for name in ("veth", "docker", "br-", "cali", "flannel", "cni") * 20),
        "[a-z]+[0-9]+n[0-9]+p[0-9]+",
        ".*a.*b.*c.*",
        r"[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}:[0-9]+",
        "(.*)-(.*)-(.*)",
        "(?:(?:0x)?[0-9a-f]{4}:)?(?:00|01|02)",
        "x" * 1000,
    ],
)
def test_what_people_write_is_cheap(pattern):
    assert not is_dear(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "a*" * 7 + "b",
        "a{1,1000}" * 7 + "b",
        "(?:a{1,8}){1,8}" * 6 + "b",
        "(?:a|aa){8}" * 6 + "b",
        "(?:(?:a{1,8}){1,8}){1,8}b",
        "a?" * 40 + "a" * 40,
    ],
)
def test_what_would_be_tried_for_minutes_is_dear(pattern):
    assert is_dear(pattern)


@pytest.mark.parametrize("pattern", ["a*" * 4 + "b", "(?:a|aa){8}(?:a|aa){8}b", "(?:a{1,4}){1,4}b"])
def test_the_dearest_that_are_taken_end_soon(pattern):
    assert not is_dear(pattern)
    assert re.fullmatch(pattern, "a" * 64) is None
