"""How the two real programs are started in a sandbox: their command lines, as a cluster's manifests would have them."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from plimsoll.durations import format_duration


@dataclass(frozen=True, slots=True)
class AgentLaunch:
    """What one node's agent is told."""

    node: str
    textfiles: Path
    listen: str  # host:port of its /metrics
    evaluator: str  # host:port of the evaluator's gRPC
    flags: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()  # rule files, or patterns of such


@dataclass(frozen=True, slots=True)
class EvaluatorLaunch:
    """What the evaluator is told."""

    kubeconfig: Path
    extender_port: int
    agent_port: int
    ops_port: int
    sync_period: float
    flags: tuple[str, ...] = ()


def agent_command(launch: AgentLaunch) -> Sequence[str]:
    """The agent of one node."""
    return (
        *_module("agent"),
        f"--node.name={launch.node}",
        f"--collector.textfile.directory={launch.textfiles}",
        *(f"--rules.file={pattern}" for pattern in launch.rules),
        f"--web.listen-address={launch.listen}",
        f"--evaluator.address={launch.evaluator}",
        *launch.flags,
    )


def evaluator_command(launch: EvaluatorLaunch) -> Sequence[str]:
    """The evaluator: plain HTTP, which only loopback excuses, and with evictions on."""
    return (
        *_module("evaluator"),
        f"--kubeConfig={launch.kubeconfig}",
        "--unsafe",
        "--bindAddress=127.0.0.1",
        f"--port={launch.extender_port}",
        f"--agentPort={launch.agent_port}",
        f"--opsPort={launch.ops_port}",
        f"--syncPeriod={format_duration(launch.sync_period)}",
        "--evict",
        # It is alone by construction; after a kill nobody should have to wait until its lease has run out.
        "--leaderElect=false",
        *launch.flags,
    )


def _module(name: str) -> tuple[str, ...]:
    # -P: a folder called `agent` where the user happens to stand is not our agent.
    return (sys.executable, "-P", "-m", name)
