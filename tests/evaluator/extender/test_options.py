"""The flags of the scheduler's port: each limit is the one that it says, and what contradicts itself is a sentence."""

import pytest

from evaluator.extender.options import ExtenderOptions
from plimsoll import flags
from plimsoll.commandline import Parser
from plimsoll.http.limits import Limits


def parse(*argv):
    return flags.parse_settings(ExtenderOptions, Parser("prog", about=""), argv=argv, env={})


def test_the_limits_are_those_of_the_server_unless_told():
    settings = parse()
    assert settings.limits == Limits()
    assert settings.extender_mistakes() == []
    assert settings.allowed_clients == frozenset()


@pytest.mark.parametrize(
    ("flag", "limits"),
    [
        ("--handshakeTimeout=7s", Limits(handshake=7.0)),
        ("--headerTimeout=7s", Limits(header=7.0)),
        ("--bodyTimeout=7s", Limits(body=7.0)),
        ("--sendTimeout=7s", Limits(send=7.0)),
        ("--idleTimeout=7s", Limits(idle=7.0)),
        ("--maxHeaderBytes=7KiB", Limits(header_bytes=7 << 10)),
        ("--maxBodyBytes=7MiB", Limits(body_bytes=7 << 20)),
        ("--maxBodiesBytes=777MiB", Limits(bodies_bytes=777 << 20)),
        ("--maxConnections=7", Limits(connections=7)),
    ],
)
def test_every_limit_has_a_flag(flag, limits):
    assert parse(flag).limits == limits


@pytest.mark.parametrize(
    "argv", [("--clientNames=a", "--clientNames=b, c"), ("--clientNames", "a,b,c")]
)
def test_names_may_be_given_one_by_one_or_together(argv):
    assert parse(*argv).allowed_clients == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--clientNames=a", "--unsafe"), "--clientNames and --unsafe contradict each other"),
        (("--maxBodyBytes=2GiB",), "--maxBodyBytes is more than --maxBodiesBytes"),
    ],
)
def test_what_contradicts_itself_is_a_sentence(argv, words):
    (mistake,) = parse(*argv).extender_mistakes()
    assert words in mistake
