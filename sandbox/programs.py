"""Command lines of agent and evaluator in a sandbox, as the manifests have them."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from plimsoll.durations import format_duration
from sandbox.machine import Machine


@dataclass(frozen=True, slots=True)
class AgentLaunch:
    """Settings of one node's agent."""

    node: str
    textfiles: Path
    listen: str  # host:port of its /metrics
    evaluator: str  # host:port of the evaluator's gRPC
    flags: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()  # rule files, or patterns of such
    machine: Machine | None = (
        None  # the simulated procfs, sysfs, GPUs and kernel log; by default this machine's, and no log
    )


@dataclass(frozen=True, slots=True)
class EvaluatorLaunch:
    """Settings of the evaluator."""

    kubeconfig: Path
    extender_port: int
    agent_port: int
    ops_port: int
    sync_period: float
    flags: tuple[str, ...] = ()


def agent_command(launch: AgentLaunch) -> Sequence[str]:
    """Return the command line of a node's agent."""
    return (
        *(_with_gpus(launch.machine) if launch.machine else _module("agent")),
        f"--node.name={launch.node}",
        f"--collector.textfile.directory={launch.textfiles}",
        *(f"--rules.file={pattern}" for pattern in launch.rules),
        f"--web.listen-address={launch.listen}",
        f"--evaluator.address={launch.evaluator}",
        *(_machine_flags(launch.machine) if launch.machine else ()),
        *launch.flags,
    )


def _with_gpus(machine: Machine) -> Sequence[str]:
    return (sys.executable, "-P", str(Path(__file__).with_name("gpus.py")), str(machine.gpus))


def _machine_flags(machine: Machine) -> Sequence[str]:
    folder = machine.folder
    return (
        f"--path.procfs={machine.procfs}",
        f"--path.sysfs={machine.sysfs}",
        f"--problems.config={folder.parent}/problems/*.json",
        f"--problems.kernel-log={folder}/kmsg",
        f"--problems.state-file={folder}/problems.state",
    )


def evaluator_command(launch: EvaluatorLaunch) -> Sequence[str]:
    """Return the evaluator's command line: plain HTTP on loopback."""
    return (
        *_module("evaluator"),
        f"--kubeConfig={launch.kubeconfig}",
        "--unsafe",
        "--bindAddress=127.0.0.1",
        f"--port={launch.extender_port}",
        f"--agentPort={launch.agent_port}",
        f"--opsPort={launch.ops_port}",
        f"--syncPeriod={format_duration(launch.sync_period)}",
        # It is the only replica; after a kill, nothing has to wait for a Lease to expire.
        "--leaderElect=false",
        # No endpoint list has to be updated before it stops.
        "--shutdownDelay=0s",
        *launch.flags,
    )


def evaluator_subcommand(*arguments: str) -> Sequence[str]:
    """Return the command line of a subcommand of plimsoll-evaluator, such as `check`."""
    return (*_module("evaluator"), *arguments)


def _module(name: str) -> tuple[str, ...]:
    # -P: a folder named `agent` in the working directory is not imported.
    return (sys.executable, "-P", "-m", name)
