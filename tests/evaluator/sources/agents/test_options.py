"""The flags of the agents' port, and the limits that they become."""

import argparse
from pathlib import Path

import pytest

from evaluator.config import Settings
from evaluator.sources.agents.limits import AgentLimits
from plimsoll import flags
from wire import telemetry_pb2


def parsed(*argv):
    return flags.parse_settings(Settings, argparse.ArgumentParser(), argv=argv, env={})


def test_without_flags_the_limits_are_the_defaults():
    assert parsed().agent_limits == AgentLimits()


@pytest.mark.parametrize(
    ("flag", "field", "value"),
    [
        ("--agentHandshakeTimeout=3s", "handshake", 3.0),
        ("--agentHelloTimeout=4s", "introduction", 4.0),
        ("--agentMaxAge=10m", "age", 600.0),
        ("--agentMaxStreams=7", "streams", 7),
        ("--agentMaxStreamsPerConnection=8", "streams_per_connection", 8),
        ("--agentMaxStreamsPerNode=9", "streams_per_node", 9),
        ("--agentStreamPause=2s", "pause", 2.0),
        ("--agentMaxReports=50", "reports", 50),
        ("--agentMaxReportBytes=64KiB", "report_bytes", 64 << 10),
    ],
)
def test_each_flag_is_one_limit(flag, field, value):
    assert getattr(parsed(flag).agent_limits, field) == value


@pytest.mark.parametrize(
    "flag",
    [
        "--agentHandshakeTimeout=0s",
        "--agentMaxStreams=0",
        "--agentMaxReportBytes=much",
        "--agentMaxReports=-1",
        "--agentServiceAccount=plimsoll-agent",
    ],
)
def test_what_is_no_limit_ends_the_program_with_a_sentence(flag, capsys):
    with pytest.raises(SystemExit) as ended:
        parsed(flag)
    assert ended.value.code == 2
    assert flag.partition("=")[0] in capsys.readouterr().err


def test_a_report_of_as_many_metrics_as_there_may_be_has_to_fit():
    count = 1000
    report = telemetry_pb2.Report(
        node_name="n" * 253,
        agent_version="v" * 50,
        generation=2**64 - 1,
        full=True,
        indices=range(count),
        values=[1.0] * count,
    )
    size = report.ByteSize()
    assert AgentLimits(report_bytes=2 * size).holds(count)
    assert not AgentLimits(report_bytes=size - 1).holds(count)
    (mistake,) = parsed("--agentMaxReportBytes=8KiB").mistakes()
    assert (
        mistake == "--agentMaxReportBytes is too small for reports of 1000 metrics (--maxMetrics)"
    )
    assert not parsed("--agentMaxReportBytes=8KiB", "--maxMetrics=500").mistakes()


def test_the_names_of_grpcs_options_are_grpcs():
    """It takes any name without a word, and heeds those that it knows: they stand in its library."""
    import grpc._cython.cygrpc as library

    known = Path(library.__file__).read_bytes()
    for name, value in AgentLimits().channel_options(connections=1):
        assert name.encode() + b"\0" in known, name
        assert isinstance(value, int)
