"""The values of the chart: path, default, JSON schema and meaning; values.yaml, its schema and README.md are written from them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

BOOLEAN = {"type": "boolean"}
TEXT = {"type": "string"}
OBJECT = {"type": "object"}
COUNT = {"type": "integer", "minimum": 1}
LIST = {"type": "array", "items": {"type": "object"}}
ARGUMENTS = {"type": "array", "items": {"type": "string", "pattern": "^--?[a-zA-Z]"}}
TEXTS = {"type": "object", "additionalProperties": TEXT}
RULE_SET = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"enabled": BOOLEAN, "content": TEXT},
}


@dataclass(frozen=True, slots=True)
class Value:
    """One value of the chart."""

    path: str
    default: Any
    schema: Mapping[str, Any]
    about: str


def general(images: Mapping[str, tuple[str, str]], objects: Mapping[str, Any]) -> Iterator[Value]:
    """Return the values that are not components; defaults of pods come from the manifests."""
    for name, (repository, _) in images.items():
        yield Value(f"{name}.image.repository", repository, TEXT, f"image of the {name}")
        yield Value(f"{name}.image.tag", "", TEXT, "default: the chart's appVersion")
        digest = {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"}
        yield Value(f"{name}.image.digest", "", digest, "digest, used in place of the tag")
        pod = objects[name]["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        yield Value(f"{name}.extraArgs", [], ARGUMENTS, "more flags: docs/flags.md")
        yield Value(f"{name}.resources", container["resources"], OBJECT, "requests and limits")
        yield Value(f"{name}.tolerations", pod["tolerations"], LIST, "tolerations of the pods")
        yield Value(f"{name}.nodeSelector", {}, TEXTS, "node selector of the pods")
    rolling = objects["agent"]["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"]
    either = {"type": ["string", "integer"]}
    yield Value("agent.maxUnavailable", rolling, either, "nodes that an update changes at once")
    about = "a NetworkPolicy: only namespace `monitoring` and Prometheus reach the agents' metrics"
    yield Value("agent.networkPolicy", True, BOOLEAN, about)
    replicas = objects["evaluator"]["spec"]["replicas"]
    yield Value("evaluator.replicas", replicas, COUNT, "replicas; one of them writes")
    yield Value("imagePullSecrets", [], LIST, "for example `[{name: registry}]`")
    yield from sources()
    yield from certificates()
    about = "CA of certificates.secrets.extender in base64, for components.serveCustomMetrics without cert-manager"
    yield Value("customMetrics.caBundle", "", TEXT, about)
    about = "the RoleBinding in kube-system for components.serveCustomMetrics; false: create it yourself"
    yield Value("customMetrics.authReader", True, BOOLEAN, about)
    yield Value("crds.install", True, BOOLEAN, "the TASPolicy CRD")
    yield Value("crds.keep", True, BOOLEAN, "`helm uninstall` keeps the CRD and all policies")


def sources() -> Iterator[Value]:
    """Return the values of --metricsSource and its sources."""
    order = {"type": "integer"}
    for name, on, number, about in (
        ("agents", True, 10, "readings of the agents"),
        ("customMetrics", False, 20, "readings of the custom metrics API, and the right to get them"),
        ("prometheus", False, 30, "readings of Prometheus"),
    ):  # fmt: skip
        yield Value(f"sources.{name}.enabled", on, BOOLEAN, about)
        yield Value(
            f"sources.{name}.order", number, order, "the source with the lowest is preferred"
        )
    yield Value(
        "sources.prometheus.url", "", TEXT, "for example `http://prometheus.monitoring:9090`"
    )
    about = "metric name: PromQL; entries of several values files add up"
    yield Value("sources.prometheus.queries", {}, TEXTS, about)


def certificates() -> Iterator[Value]:
    """Return the values of the three secrets with certificates."""
    modes = {"enum": ["cert-manager", "existing-secrets", "job"]}
    about = "how the secrets are made; `job`: once, before the first install, valid for a year"
    yield Value("certificates.mode", "cert-manager", modes, about)
    for name, secret in (("extender", "plimsoll-extender-tls"), ("agents", "plimsoll-agents-tls")):
        about = f"secret with tls.crt, tls.key and ca.crt of port `{name}`"
        yield Value(f"certificates.secrets.{name}", secret, TEXT, about)


def tree(values: Sequence[Value]) -> dict[str, Any]:
    """Return the defaults as nested mappings."""
    found: dict[str, Any] = {}
    for value in values:
        *above, last = value.path.split(".")
        node = found
        for key in above:
            node = node.setdefault(key, {})
        node[last] = value.default
    return found


def schema(values: Sequence[Value]) -> dict[str, Any]:
    """Return values.schema.json; unknown keys are errors."""
    root = _closed()
    root = {"$schema": "https://json-schema.org/draft/2020-12/schema", **root}
    root["properties"]["global"] = OBJECT  # Helm adds it in subcharts
    for value in values:
        *above, last = value.path.split(".")
        node = root
        for key in above:
            node = node["properties"].setdefault(key, _closed())
        node["properties"][last] = {**value.schema, "description": value.about}
    return root


def _closed() -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": {}}
