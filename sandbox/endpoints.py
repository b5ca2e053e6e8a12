"""Addresses of a running sandbox: endpoints.json for programs, a kubeconfig for kubectl, a table for the terminal."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from plimsoll.text import counted

_CONTEXT = "plimsoll-sandbox"
_METRICS_API = "/apis/custom.metrics.k8s.io/v1beta2"


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Base URLs; `agents` is a gRPC target (`host:port`), `metrics` the scrape URL of each node."""

    api: str
    extender: str
    ops: str
    agents: str
    metrics: Mapping[str, str]

    def as_json(self) -> str:
        """Return the text of endpoints.json: one flat object, name to URL."""
        named = {"api": self.api, "extender": self.extender, "ops": self.ops, "agents": self.agents}
        named |= {f"metrics/{node}": url for node, url in self.metrics.items()}
        return json.dumps(named, indent=2) + "\n"


def kubeconfig(api: str, *, token: str = "", ca: Path | None = None) -> str:
    """Return a kubeconfig for an API server without authentication, or with a CA and a token."""
    cluster = {"server": api} | ({"certificate-authority": str(ca)} if ca else {})
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _CONTEXT, "cluster": cluster}],
        "users": [{"name": _CONTEXT, "user": {"token": token} if token else {}}],
        "contexts": [{"name": _CONTEXT, "context": {"cluster": _CONTEXT, "user": _CONTEXT}}],
        "current-context": _CONTEXT,
    }
    return str(yaml.safe_dump(config, sort_keys=False))


def write_atomically(path: Path, text: str) -> None:
    """Write a file atomically."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text)
    beside.replace(path)


def table(
    endpoints: Endpoints,
    folder: Path,
    manifests: Path,
    *,
    gangs: bool = False,
    custom_metrics: bool = False,
) -> str:
    """Return what `plimsoll up` prints when ready: addresses and next commands."""
    for_gangs = (
        f"  kubectl apply -f {manifests}/gang-demo/",
        f"  curl '{endpoints.ops}/explain?gang=gang-demo/later'",
        "  kubectl -n gang-demo delete deployment urgent",
    )
    node = list(endpoints.metrics)[1 % len(endpoints.metrics)]
    rows = [
        ("Kubernetes API", endpoints.api, f"{folder}/kubeconfig"),
        ("extender", f"{endpoints.extender}/scheduler", "POST filter, prioritize"),
        ("pages", f"{endpoints.ops}/", "open it in a browser: policies, nodes, pods"),
        ("evaluator", endpoints.ops, "/readyz  /metrics  /explain/<namespace>/<policy>"),
        ("agents' stream", endpoints.agents, "gRPC"),
        *(
            (f"agent of {name}", url, f"reads {folder}/{name}/node-metrics/*.prom")
            for name, url in endpoints.metrics.items()
        ),
        (
            "custom metrics",
            _METRICS_API if custom_metrics else "off",
            "kubectl get --raw" if custom_metrics else "needs --custom-metrics and openssl",
        ),
        ("agents' rules", f"{folder}/rules/*.yaml", "recording rules, beside those that ship"),
        ("all of these", f"{folder}/endpoints.json", f"logs in {folder}/logs/"),
    ]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [f"  {name:<{widths[0]}}  {where:<{widths[1]}}  {what}" for name, where, what in rows]
    return "\n".join(
        (
            f"A cluster of {counted(len(endpoints.metrics), 'node')} runs on this machine. Ctrl-C ends it.",
            "",
            *lines,
            "",
            "Next, in another terminal:",
            f"  export KUBECONFIG={folder}/kubeconfig",
            "  kubectl get nodes",
            f"  kubectl apply -f {manifests}/health-metric-demo/",
            "  kubectl get pods --all-namespaces -o wide",
            f"  echo 'node_health_metric 1' > {folder}/{node}/node-metrics/text.prom",
            f"  curl {endpoints.ops}/explain/health-metric-demo/demo-policy",
            *(
                (f"  kubectl get --raw '{_METRICS_API}/nodes/*/health_metric'",)
                if custom_metrics
                else ()
            ),
            *(for_gangs if gangs else ()),
            "",
        )
    )
