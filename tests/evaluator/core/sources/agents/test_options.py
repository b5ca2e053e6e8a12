"""The flags of the agents' port, and the resulting limits."""

import argparse
from pathlib import Path

import pytest

from evaluator.config import Settings
from evaluator.core.sources.agents.limits import AgentLimits
from plimsoll import flags
from wire import telemetry_pb2


def parsed(*argv):
    return flags.parse_settings(Settings, argparse.ArgumentParser(), argv=argv, env={})


def test_limits_have_defaults_without_flags():
    assert parsed().agent_limits == AgentLimits()


@pytest.mark.parametrize(
    "flag",
    [
        "--agentPort=70000",
        "--agentIdentity=password",
        "--agentServiceAccount=plimsoll-agent",
    ],
)
def test_invalid_limit_exits_with_a_sentence(flag, capsys):
    with pytest.raises(SystemExit) as ended:
        parsed(flag)
    assert ended.value.code == 2
    assert flag.partition("=")[0] in capsys.readouterr().err


@pytest.mark.parametrize("count", [1000, 10_000])
def test_report_of_max_metrics_fits(count):
    report = telemetry_pb2.Report(
        node_name="n" * 253,
        agent_version="v" * 50,
        generation=2**64 - 1,
        full=True,
        indices=range(count),
        values=[1.0] * count,
    )
    assert AgentLimits(report_bytes=1).for_metrics(count).report_bytes >= report.ByteSize()
    assert AgentLimits(report_bytes=1 << 30).for_metrics(count) == AgentLimits(report_bytes=1 << 30)


def test_grpc_option_names_exist_in_the_library():
    """gRPC accepts any option name and ignores unknown ones: the known ones are in its library."""
    import grpc._cython.cygrpc as library

    known = Path(library.__file__).read_bytes()
    for name, value in AgentLimits().channel_options(connections=1):
        assert name.encode() + b"\0" in known, name
        assert isinstance(value, int)
