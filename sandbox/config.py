"""The settings of the sandbox."""

import re
from dataclasses import dataclass

from plimsoll.durations import duration
from plimsoll.flags import choice, option, port

_NODE_NAME = re.compile(
    r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*"
)

_TAKEN = {
    "certificates": "certificates are kept",
    "logs": "the programs' logs go",
    "rules": "the agents' rule files lie",
    "problems": "the agents' configurations of problems lie",
}


def node_names(text: str) -> str:
    """Parse a comma-separated list of node names, which become Kubernetes names and folders. Raises ValueError."""
    names = text.split(",")
    for name in names:
        if _NODE_NAME.fullmatch(name) is None or len(name) > 63:
            raise ValueError(f"not a node name: {name!r} (lower-case letters, digits, '-' and '.')")
        if names.count(name) > 1:
            raise ValueError(f"{name!r} is named twice")
        if name in _TAKEN:
            raise ValueError(f"{name!r} is where {_TAKEN[name]}; call the node something else")
    return text


@dataclass(frozen=True, slots=True)
class UpSettings:
    """`plimsoll up`."""

    dir: str = option(
        "dir",
        ".sandbox",
        "where the cluster keeps its kubeconfig, endpoints.json, logs/, rules/ and a folder for each node",
        metavar="FOLDER",
    )
    nodes: str = option(
        "nodes",
        "node-a,node-b,node-c",
        "the nodes, separated by commas; each gets an agent of its own",
        metavar="NAMES",
        parse=node_names,
    )
    api_port: int = option(
        "api-port", 0, "port of the Kubernetes API, 0 for any free one", metavar="N", parse=port
    )
    extender_port: int = option(
        "extender-port",
        0,
        "port of the scheduler extender, 0 for any free one",
        metavar="N",
        parse=port,
    )
    ops_port: int = option(
        "ops-port",
        0,
        "port of the evaluator's /readyz, /metrics and /explain, 0 for any free one",
        metavar="N",
        parse=port,
    )
    sync_period: float = option(
        "sync-period",
        5.0,
        "the evaluator's --syncPeriod: how often agents read the metrics of policies (changed files are read sooner)",
        metavar="DURATION",
        parse=duration,
    )
    node_cache_capable: bool = option(
        "node-cache-capable",
        True,
        "send node names (true) or whole Node objects (false) to the extender",
    )
    keep: bool = option(
        "keep",
        False,
        "keep the *.prom files of the previous cluster in this folder; by default they are deleted",
    )
    scorers: str = option(
        "scorers",
        "",
        "the evaluator's --scorers, separated by commas: each is an extender for every pod; agents measure this machine, "
        "so write each node's usage into *.prom files",
        metavar="NAMES",
    )
    gangs: bool = option(
        "gangs",
        False,
        "the evaluator's --gangs: pods with the scheduling gate plimsoll.io/gang are released as whole gangs, by priority",
    )
    node_actions: bool = option(
        "node-actions",
        False,
        "the evaluator's --taints and --conditions: policies may taint nodes and set conditions on them",
    )
    problems: bool = option(
        "problems",
        True,
        "each agent reads a kernel log, DIR/NODE/kmsg, into which `plimsoll inject` writes faults",
    )
    custom_metrics: bool = option(
        "custom-metrics",
        True,
        "serve the custom metrics API (docs/custom-metrics.md); needs openssl",
    )
    log_level: str = option(
        "log.level",
        "info",
        "log level of the sandbox itself: debug, info, warn or error",
        metavar="LEVEL",
        parse=choice("debug", "info", "warn", "error"),
    )


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """`plimsoll demo`."""

    dir: str = option(
        "dir",
        "",
        "folder of the demo's cluster (default a temporary one, removed afterwards), or of its pictures (default here)",
        metavar="FOLDER",
    )


@dataclass(frozen=True, slots=True)
class InjectSettings:
    """`plimsoll inject`."""

    dir: str = option("dir", ".sandbox", "folder of the running sandbox", metavar="FOLDER")
