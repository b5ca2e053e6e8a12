"""Puts the values of the chart in place of what the manifests have, and says on which values an object depends."""

import copy
from collections.abc import Mapping
from typing import Any

from release.template import NAMESPACE, Added, Either, Item, More, Raw, put

Key = tuple[str, str]
"""Kind and name of an object."""

STREAMS = "and .Values.evaluator.enabled .Values.sources.agents.enabled"
"""When agents have an evaluator to stream to."""
SWITCHES: Mapping[Key, str] = {
    ("RoleBinding", "plimsoll-evaluator-auth-reader"): ".Values.customMetrics.authReader",
    ("NetworkPolicy", "plimsoll-agent"): ".Values.agent.networkPolicy.enabled",
    ("NetworkPolicy", "plimsoll-evaluator"): ".Values.evaluator.networkPolicy.enabled",
    ("PodDisruptionBudget", "plimsoll-evaluator"): ".Values.evaluator.podDisruptionBudget.enabled",
    ("ServiceAccount", "plimsoll-agent"): ".Values.agent.serviceAccount.create",
    ("ServiceAccount", "plimsoll-evaluator"): ".Values.evaluator.serviceAccount.create",
    ("PriorityClass", "plimsoll-agent"): 'eq .Values.agent.priorityClassName "plimsoll-agent"',
    (
        "PriorityClass",
        "plimsoll-evaluator",
    ): 'eq .Values.evaluator.priorityClassName "plimsoll-evaluator"',
    ("PrometheusRule", "plimsoll"): ".Values.monitoring.rules",
    ("Issuer", "plimsoll-selfsigned"): "not .Values.certificates.issuerRef",
    ("Issuer", "plimsoll-ca"): "not .Values.certificates.issuerRef",
    ("Certificate", "plimsoll-ca"): "not .Values.certificates.issuerRef",
}
"""Object -> a further condition."""
_RIGHTS = {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
_OF_AGENT = {"plimsoll-agent", "plimsoll-agent-gpu", "plimsoll-agent-egress", "plimsoll-problems"}
_GPU = ".Values.agent.gpu"
_OS = "kubernetes.io/os"
_OF_BOTH = {("ConfigMap", "plimsoll-dashboard")}


def guards(key: Key) -> list[str]:
    """Return the conditions of an object beside that of its component: whether its program is installed, and a switch."""
    kind, name = key
    found = []
    if key not in _OF_BOTH:
        program = "agent" if name in _OF_AGENT else "evaluator"
        found.append(f".Values.{program}.enabled")
    if key in SWITCHES:
        found.append(SWITCHES[key])
    return [*found, *([".Values.rbac.create"] if kind in _RIGHTS else [])]


def adapt(key: Key, body: Any) -> None:
    """Put values of the chart into one object, in place."""
    kind, name = key
    program = name.removeprefix("plimsoll-")
    match kind:
        case "Deployment":
            put(body, ["spec", "replicas"], Raw("{{ .Values.evaluator.replicas }}"))
            _pod(body["spec"]["template"], "evaluator")
        case "DaemonSet":
            path = ["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"]
            put(body, path, Raw("{{ .Values.agent.maxUnavailable }}"))
            _pod(body["spec"]["template"], "agent")
        case "ServiceAccount" if program in {"agent", "evaluator"}:
            body["metadata"]["name"] = _account(program)
            value = f".Values.{program}.serviceAccount.annotations"
            body["metadata"]["annotations"] = Added(value, Raw(f"toYaml {value}", block=True))
        case "PodDisruptionBudget":
            most = Raw("{{ .Values.evaluator.podDisruptionBudget.maxUnavailable }}")
            put(body, ["spec", "maxUnavailable"], most)
        case "Certificate" if name != "plimsoll-ca":
            reference = ".Values.certificates.issuerRef"
            body["spec"]["issuerRef"] = Either(reference, body["spec"]["issuerRef"])
        case "PodMonitor" | "PrometheusRule":
            _monitoring(body)
        case "NetworkPolicy":
            _network_policy(body, program)
        case "ConfigMap" if program == "problems":
            shipped = body["data"].items()
            body["data"] = {file: Added(".Values.problems.shipped", text) for file, text in shipped}
            body["data"]["+"] = More(".Values.problems.files")
        case "APIService":
            put(body, ["spec", "service", "namespace"], Raw(NAMESPACE))
            bundle = ".Values.customMetrics.caBundle"
            body["spec"]["caBundle"] = Added(bundle, Raw(f"{{{{ {bundle} }}}}"))
            notes = body["metadata"]["annotations"]
            notes.update({note: Added(f"not {bundle}", text) for note, text in notes.items()})
        case _:
            pass


def placed(body: Any) -> Any:
    """Return an object with the release's namespace, names of accounts and common labels."""
    metadata = body["metadata"]
    if metadata.get("namespace") == "plimsoll":
        monitor = body["kind"] in {"PodMonitor", "PrometheusRule"}
        other = "{{ .Values.monitoring.namespace | default .Release.Namespace }}"
        metadata["namespace"] = Raw(other if monitor else NAMESPACE)
    for subject in body.get("subjects", []):
        if subject.get("namespace") == "plimsoll":
            subject["namespace"] = Raw(NAMESPACE)
        if subject.get("name") == "plimsoll-evaluator":
            subject["name"] = _account("evaluator")
    for hook in body.get("webhooks", []):
        hook["clientConfig"]["service"]["namespace"] = Raw(NAMESPACE)
    _common_labels(metadata)
    return body


def monitor_secret(body: Any) -> None:
    """Name the chart's secret in the TLS configuration of a PodMonitor."""
    (endpoint,) = body["spec"]["podMetricsEndpoints"]
    if tls := endpoint.get("tlsConfig"):
        tls["ca"]["secret"]["name"] = Raw("{{ .Values.certificates.secrets.extender }}")


def _common_labels(metadata: dict[str, Any]) -> None:
    labels = ".Values.commonLabels"
    if isinstance(metadata.get("labels"), dict):
        metadata["labels"]["+common"] = More(labels)
    elif "labels" not in metadata:
        metadata["labels"] = Added(labels, Raw(f"toYaml {labels}", block=True))


def _account(program: str) -> Raw:
    return Raw(f"{{{{ .Values.{program}.serviceAccount.name }}}}")


def _monitoring(body: Any) -> None:
    """Put labels into a PrometheusRule or PodMonitor; into the latter also interval, and the namespace of the pods."""
    body["metadata"].setdefault("labels", {})["+"] = More(".Values.monitoring.labels")
    if body["kind"] == "PrometheusRule":
        return
    (endpoint,) = body["spec"]["podMetricsEndpoints"]
    endpoint["interval"] = Raw("{{ .Values.monitoring.interval }}")
    elsewhere = {"matchNames": [Raw(NAMESPACE)]}
    body["spec"]["namespaceSelector"] = Added(".Values.monitoring.namespace", elsewhere)


def _network_policy(body: Any, program: str) -> None:
    """Put the peers of the values into the NetworkPolicy of a program, and those of Prometheus into that of egress."""
    if program == "evaluator-egress":
        _prometheus_egress(body)
    if program.endswith("-egress"):
        return
    values = f".Values.{program}.networkPolicy"
    rules = body["spec"]["ingress"]
    if program == "agent":
        rules[0]["from"] = _scrapers(rules[0]["from"], values)
    else:
        rules[1]["from"].append(More(f"{values}.agentsFrom"))
        blocks = (
            "{{- range .Values.evaluator.pagesFrom }}",
            "- ipBlock:",
            "    cidr: {{ . | quote }}",
            "{{- end }}",
        )
        rules[2]["from"] = [*_scrapers(rules[2]["from"], values), Item(blocks)]
        rules.append(More(f"{values}.ingress"))


def _scrapers(peers: list[Any], values: str) -> list[Any]:
    """Return who may scrape: the namespaces of the values, Prometheus, and further peers."""
    namespaces = (
        f"{{{{- range {values}.namespaces }}}}",
        "- namespaceSelector:",
        "    matchLabels:",
        "      kubernetes.io/metadata.name: {{ . }}",
        "{{- end }}",
    )
    _, prometheus = peers
    (where,) = prometheus["namespaceSelector"]["matchExpressions"]
    closed = where["values"]
    where["values"] = Added(closed.condition, _block(f"{values}.namespaces"))
    some = f"or {values}.namespaces (not {closed.condition})"
    return [Item(namespaces), Added(some, prometheus), More(f"{values}.from")]


def _prometheus_egress(body: Any) -> None:
    """Put the namespace and port of Prometheus into the rule of `prometheus-egress`."""
    rule = body["spec"]["egress"][-1].value
    values = ".Values.sources.prometheus"
    put(rule, ["ports", 0, "port"], Raw(f"{{{{ {values}.port }}}}"))
    labels: list[str | int] = [
        "to",
        0,
        "namespaceSelector",
        "matchLabels",
        "kubernetes.io/metadata.name",
    ]
    put(rule, labels, Raw(f"{{{{ {values}.namespace }}}}"))


def _pod(template: dict[str, Any], name: str) -> None:
    """Put the values of a program into its pod template."""
    values, pod, metadata = f".Values.{name}", template["spec"], template["metadata"]
    metadata["labels"] |= {
        "+": More(f"{values}.podLabels"),
        "+common": More(".Values.commonLabels"),
    }
    metadata["annotations"]["+"] = More(f"{values}.podAnnotations")
    container, *others = pod["containers"]
    of_components = (other.value if isinstance(other, Added) else other for other in others)
    for each in [*pod.get("initContainers", []), container, *of_components]:
        each["image"] = Raw(f'{{{{ include "plimsoll.image" (list . "{name}") }}}}')
        policy = f"{values}.image.pullPolicy"
        each["imagePullPolicy"] = Added(policy, Raw(f"{{{{ {policy} }}}}"))
    container["resources"] = _block(f"{values}.resources")
    container["securityContext"] = Either(f"{values}.securityContext", container["securityContext"])
    pod["securityContext"] = Either(f"{values}.podSecurityContext", pod["securityContext"])
    pod["serviceAccountName"] = _account(name)
    pod["priorityClassName"] = Raw(f"{{{{ {values}.priorityClassName }}}}")
    pod["tolerations"] = _block(f"{values}.tolerations")
    selector = f"{values}.nodeSelector"
    if _OS in pod.get("nodeSelector", {}):
        pod["nodeSelector"]["+"] = More(f'omit {selector} "{_OS}"')
    else:
        pod["nodeSelector"] = Added(selector, _block(selector))
    for field in ("affinity", "topologySpreadConstraints"):
        pod[field] = Added(f"{values}.{field}", _block(f"{values}.{field}"))
    pod["imagePullSecrets"] = Added(".Values.imagePullSecrets", _block(".Values.imagePullSecrets"))
    for field, more in (("env", "extraEnv"), ("volumeMounts", "extraVolumeMounts")):
        if field in container:
            container[field].append(More(f"{values}.{more}"))
        else:
            container[field] = Added(f"{values}.{more}", _block(f"{values}.{more}"))
    pod["volumes"].append(More(f"{values}.extraVolumes"))
    container["args"] = [*_arguments(container["args"], name)]
    (_agent_pod if name == "agent" else _evaluator_pod)(pod, container)
    for volume in pod["volumes"]:
        if isinstance(volume, dict):
            _volume(volume)


def _block(expression: str) -> Raw:
    return Raw(f"toYaml {expression}", block=True)


def _arguments(arguments: list[Any], name: str) -> list[Any]:
    found = [one for one in arguments if "--metricsSource=" not in str(one)]
    if name == "evaluator":
        lines = (
            '{{- range splitList "\\n" (include "plimsoll.sourceArgs" . | trim) }}',
            "{{- if . }}",
            "- {{ . | quote }}",
            "{{- end }}",
            "{{- end }}",
        )
        found.append(Item(lines))
    extra = (f"{{{{- range .Values.{name}.extraArgs }}}}", "- {{ . | quote }}", "{{- end }}")
    return [*found, Item(extra)]


def _agent_pod(pod: dict[str, Any], container: dict[str, Any]) -> None:
    """Stream only to an evaluator that is installed; the port and the network are values."""
    container["args"] = [
        Added(STREAMS, one) if str(one).startswith("--evaluator.") else one
        for one in container["args"]
    ]
    own_port = "ne (int .Values.agent.port) 9100"
    listen = Raw('"--web.listen-address=:{{ .Values.agent.port }}"')
    container["args"].insert(-1, Added(own_port, listen))
    (port,) = container["ports"]
    port["containerPort"] = Raw("{{ .Values.agent.port }}")
    pod["hostNetwork"] = Raw("{{ .Values.agent.hostNetwork }}")
    pod["dnsPolicy"] = Added(".Values.agent.hostNetwork", "ClusterFirstWithHostNet")
    # Nodes with GPUs have a DaemonSet of their own (`gpu`).
    pod["affinity"] = Added(
        f"or .Values.agent.affinity {_GPU}.enabled", Raw('include "plimsoll.agentAffinity" .', True)
    )
    for field, named in (("volumeMounts", container), ("volumes", pod)):
        named[field] = [
            Added(STREAMS, one)
            if isinstance(one, dict) and one["name"] in {"evaluator-ca", "token"}
            else one
            for one in named[field]
        ]
    for volume in pod["volumes"]:
        if isinstance(volume, Added):
            _volume(volume.value)


def gpu(agent: Any) -> Any:
    """Return the DaemonSet for nodes with GPUs, from the adapted one of all others.

    Its pods have all labels of the agents' pods, which NetworkPolicies and PodMonitors select, and one more.
    """
    body = copy.deepcopy(agent)
    body["metadata"]["name"] = "plimsoll-agent-gpu"
    template = body["spec"]["template"]
    for labels in (body["spec"]["selector"]["matchLabels"], template["metadata"]["labels"]):
        labels["app.kubernetes.io/component"] = "gpu"
    pod = template["spec"]
    selector = f'merge (deepCopy {_GPU}.nodeSelector) (omit .Values.agent.nodeSelector "{_OS}")'
    pod["nodeSelector"]["+"] = More(selector)
    pod["affinity"] = Added(".Values.agent.affinity", _block(".Values.agent.affinity"))
    runtime = f"{_GPU}.runtimeClassName"
    pod["runtimeClassName"] = Added(runtime, Raw(f"{{{{ {runtime} }}}}"))
    environment = pod["containers"][0]["env"]
    environment[-1:-1] = [
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
        {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"},
    ]
    return body


def _evaluator_pod(pod: dict[str, Any], container: dict[str, Any]) -> None:
    """Mount the queries of the values, and name the networks that read pages."""
    networks = ".Values.evaluator.pagesFrom"
    flag = Raw(f'"--pagesFrom={{{{ join "," {networks} }}}}"')
    container["args"].insert(-1, Added(networks, flag))
    queries = ".Values.sources.prometheus.queries"
    mount = {"name": "queries", "mountPath": "/etc/plimsoll/queries", "readOnly": True}
    container["volumeMounts"].append(Added(queries, mount))
    volume = {"name": "queries", "configMap": {"name": "plimsoll-queries"}}
    pod["volumes"].append(Added(queries, volume))


def _volume(volume: dict[str, Any]) -> None:
    """Name the chart's secrets and rules."""
    secret, config = volume.get("secret"), volume.get("configMap")
    if secret:
        which = secret["secretName"].split("-")[1]
        secret["secretName"] = Raw(f"{{{{ .Values.certificates.secrets.{which} }}}}")
    if config and config["name"].startswith("plimsoll-rules"):
        config["name"] = Raw('{{ include "plimsoll.rulesName" . }}')
