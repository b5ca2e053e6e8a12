"""The values of the chart: path, default, JSON schema and meaning; values.yaml, its schema and README.md are written from them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

BOOLEAN = {"type": "boolean"}
TEXT = {"type": "string"}
OBJECT = {"type": "object"}
EITHER = {"type": ["string", "integer"]}
PORT = {"type": "integer", "minimum": 1, "maximum": 65535}
NAMES = {"type": "array", "items": {"type": "string"}}
NETWORKS = {"type": "array", "items": {"type": "string", "pattern": "/[0-9]+$"}}
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
        yield Value(f"{name}.enabled", True, BOOLEAN, f"install the {name}; docs/install.md")
        yield from _image(name, repository)
        yield from _pod(name, objects[name]["spec"]["template"]["spec"])
    rolling = objects["agent"]["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"]
    yield Value("agent.maxUnavailable", rolling, EITHER, "nodes that an update changes at once")
    yield Value("agent.port", 9100, PORT, "port of the metrics; with hostNetwork it is the node's")
    about = "use the node's network: for ethtool, qdisc and wifi; allow the nodes' addresses in NetworkPolicies"
    yield Value("agent.hostNetwork", False, BOOLEAN, about)
    yield from gpu()
    about = (
        "a NetworkPolicy: only these namespaces, Prometheus and `from` reach the agents' metrics"
    )
    yield Value("agent.networkPolicy.enabled", True, BOOLEAN, about)
    yield Value("agent.networkPolicy.namespaces", ["monitoring"], NAMES, "whose pods may scrape")
    yield Value("agent.networkPolicy.from", [], LIST, "further peers, as in a NetworkPolicy")
    replicas = objects["evaluator"]["spec"]["replicas"]
    yield Value("evaluator.replicas", replicas, COUNT, "replicas; one of them writes")
    about = "a PodDisruptionBudget"
    yield Value("evaluator.podDisruptionBudget.enabled", True, BOOLEAN, about)
    about = "replicas that a drain may stop at once"
    yield Value("evaluator.podDisruptionBudget.maxUnavailable", 1, EITHER, about)
    yield Value("evaluator.networkPolicy.enabled", True, BOOLEAN, "a NetworkPolicy by port")
    about = "peers of port `agents` beside the agents, such as `[{ipBlock: {cidr: 10.0.0.0/8}}]` with hostNetwork"
    yield Value("evaluator.networkPolicy.agentsFrom", [], LIST, about)
    about = "whose pods reach port `ops` for /metrics; so does Prometheus elsewhere"
    yield Value("evaluator.networkPolicy.namespaces", ["monitoring"], NAMES, about)
    about = "further peers of port `ops`, as in a NetworkPolicy"
    yield Value("evaluator.networkPolicy.from", [], LIST, about)
    about = (
        "networks that read pages without a token (--pagesFrom), also in the NetworkPolicy: addresses of the API servers, "
        "for the service proxy of `kubectl plimsoll` and Headlamp; docs/kubectl-plugin.md"
    )
    yield Value("evaluator.pagesFrom", [], NETWORKS, about)
    yield Value("evaluator.networkPolicy.ingress", [], LIST, "further rules, with ports and peers")
    yield Value("rbac.create", True, BOOLEAN, "Roles and bindings; false: create those of deploy")
    yield Value("commonLabels", {}, TEXTS, "labels of all objects and pods, not of selectors")
    yield Value("imagePullSecrets", [], LIST, "for example `[{name: registry}]`")
    yield Value(
        "monitoring.labels", {}, TEXTS, "of PodMonitors and alerts: `{release: prometheus}`"
    )
    about = "namespace of PodMonitors and alerts; default: the release's"
    yield Value("monitoring.namespace", "", TEXT, about)
    yield Value("monitoring.interval", "15s", TEXT, "time between two scrapes")
    yield Value("monitoring.rules", True, BOOLEAN, "the alerts of docs/alerts.md")
    yield from sources()
    yield from certificates()
    about = "CA of certificates.secrets.extender in base64, for components.serveCustomMetrics without cert-manager"
    yield Value("customMetrics.caBundle", "", TEXT, about)
    about = "the RoleBinding in kube-system for components.serveCustomMetrics; false: create it yourself"
    yield Value("customMetrics.authReader", True, BOOLEAN, about)
    about = "namespaces that get the policy `balance` of deploy/examples/balance; the CRD must exist: set it by `helm upgrade`"
    yield Value("balance.namespaces", [], NAMES, about)
    about = "`observe`: it only reports what it would do; `enforce`: pods with its label are placed by it"
    enforcement = {"type": "string", "enum": ["observe", "enforce"]}
    yield Value("balance.enforcement", "observe", enforcement, about)
    yield Value("crds.install", True, BOOLEAN, "the TASPolicy CRD")
    yield Value("crds.keep", True, BOOLEAN, "`helm uninstall` keeps the CRD and all policies")


def gpu() -> Iterator[Value]:
    """Return the values of the DaemonSet for nodes with GPUs, and of problem configurations."""
    about = "a second DaemonSet for nodes with NVIDIA GPUs; docs/gpu.md"
    yield Value("agent.gpu.enabled", False, BOOLEAN, about)
    about = "RuntimeClass of its pods; empty: the nodes' default runtime is NVIDIA's"
    yield Value("agent.gpu.runtimeClassName", "nvidia", TEXT, about)
    labels = {"nvidia.com/gpu.present": "true"}
    about = "labels of nodes with GPUs: these get the second DaemonSet, all others the first"
    yield Value("agent.gpu.nodeSelector", labels, TEXTS, about)
    about = "the problem configuration that is shipped with components.kernelLog"
    yield Value("problems.shipped", True, BOOLEAN, about)
    files = {**TEXTS, "propertyNames": {"pattern": r"^[A-Za-z0-9._-]+\.json$"}}
    about = "further ones: file name, such as `mine.json`, to its content; docs/node-problem-detector.md"
    yield Value("problems.files", {}, files, about)


def _image(name: str, image: str) -> Iterator[Value]:
    registry, _, repository = image.partition("/")
    yield Value(f"{name}.image.registry", registry, TEXT, f"registry of the {name}'s image")
    yield Value(f"{name}.image.repository", repository, TEXT, "its path there")
    yield Value(f"{name}.image.tag", "", TEXT, "default: the chart's appVersion")
    digest = {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"}
    yield Value(f"{name}.image.digest", "", digest, "digest, used in place of the tag")
    policies = {"enum": ["", "Always", "IfNotPresent", "Never"]}
    yield Value(f"{name}.image.pullPolicy", "", policies, "default: Kubernetes' own")


def _pod(name: str, pod: Mapping[str, Any]) -> Iterator[Value]:
    (container,) = pod["containers"]
    account = pod["serviceAccountName"]
    spread = pod.get("topologySpreadConstraints", [])
    for value, default, kind, about in (
        ("extraArgs", [], ARGUMENTS, "more flags: docs/flags.md"),
        ("extraEnv", [], LIST, "more environment variables"),
        ("extraVolumes", [], LIST, "more volumes"),
        ("extraVolumeMounts", [], LIST, "more mounts of the container"),
        ("resources", container["resources"], OBJECT, "requests and limits"),
        ("tolerations", pod["tolerations"], LIST, "tolerations of the pods"),
        ("nodeSelector", {}, TEXTS, "node selector of the pods"),
        ("affinity", {}, OBJECT, "affinity of the pods"),
        ("topologySpreadConstraints", spread, LIST, "spread of the pods"),
        ("priorityClassName", pod["priorityClassName"], TEXT, "another one must exist"),
        ("podAnnotations", {}, TEXTS, "annotations of the pods"),
        ("podLabels", {}, TEXTS, "labels of the pods"),
        ("podSecurityContext", {}, OBJECT, "replaces that of the pods"),
        ("securityContext", {}, OBJECT, "replaces that of the container, also that of components"),
        ("serviceAccount.create", True, BOOLEAN, "create the ServiceAccount"),
        ("serviceAccount.name", account, TEXT, "its name"),
        ("serviceAccount.annotations", {}, TEXTS, "its annotations"),
    ):
        yield Value(f"{name}.{value}", default, kind, about)


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
    about = "its namespace, for components.prometheusEgress"
    yield Value("sources.prometheus.namespace", "monitoring", TEXT, about)
    about = "its pods' port there; after translation of a Service"
    yield Value("sources.prometheus.port", 9090, PORT, about)


def certificates() -> Iterator[Value]:
    """Return the values of the three secrets with certificates."""
    modes = {"enum": ["cert-manager", "existing-secrets", "job"]}
    about = "how the secrets are made; `job`: once, before the first install, valid for a year"
    yield Value("certificates.mode", "cert-manager", modes, about)
    about = "issuer of cert-manager for all certificates, such as `{name: ca, kind: ClusterIssuer}`; default: an own CA"
    yield Value("certificates.issuerRef", {}, OBJECT, about)
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
