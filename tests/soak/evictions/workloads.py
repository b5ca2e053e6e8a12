"""What runs in the cluster of a soak: deployments of every kind of constraint, and pods that nothing recreates."""

NAMESPACE = "default"
OURS = "plimsoll.example/round"
"""Label of all that a round creates."""


def template(app, policy, number, *, annotations=None, cpu="100m", **spec):
    """A pod template."""
    amounts = {"telemetry/scheduling": "1", "cpu": cpu}
    container = {
        "name": "c",
        "image": "none",
        "resources": {"limits": amounts, "requests": amounts},
    }
    if ports := spec.pop("ports", None):
        container["ports"] = ports
    labels = {"app": app, "telemetry-policy": policy, OURS: str(number)}
    meta = {"labels": labels, "annotations": annotations or {}}
    body = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
    return {"metadata": meta, "spec": body}


def deployment(app, policy, number, replicas, **more):
    """A Deployment of pods of this policy."""
    meta = {"name": app, "namespace": NAMESPACE, "labels": {OURS: str(number)}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta,
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": app}},
            "template": template(app, policy, number, **more),
        },
    }


def apart(app, key="kubernetes.io/hostname"):
    """Required anti-affinity of a workload against itself."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(app, key="kubernetes.io/hostname"):
    """A topology spread constraint of a workload."""
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}},
        }
    ]


def random_deployments(rng, number, policies, nodes):
    """The deployments of a round; with as many replicas as nodes, those of some kinds can never move."""
    kinds = {
        "plain": lambda _app: {},
        "behind-budget": lambda _app: {},
        "behind-two": lambda _app: {},
        "apart": lambda app: {"affinity": apart(app)},
        "port": lambda _app: {"ports": [{"containerPort": 80, "hostPort": port}]},
        "spread": lambda app: {"topologySpreadConstraints": spread(app)},
        "large": lambda _app: {"cpu": "3500m"},
        "marked": lambda _app: {
            "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
        },
    }
    for kind, more in kinds.items():
        app, port = f"r{number}-{kind}", 20_000 + number % 10_000
        few = rng.randint(2, max(2, nodes - 1))
        replicas = rng.choice((few, nodes)) if kind in {"apart", "port", "spread"} else few
        yield deployment(app, rng.choice(policies), number, replicas, **more(app))


def budget(name, app, number, **bounds):
    """A PodDisruptionBudget."""
    meta = {"name": name, "namespace": NAMESPACE, "labels": {OURS: str(number)}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": meta,
        "spec": {"selector": {"matchLabels": {"app": app}}, **bounds},
    }


def bare_pod(name, policy, number, node, owner=None):
    """A pod that nothing recreates; `owner`: the reference of its controller, if it has one."""
    made = template("bare", policy, number)
    meta = {**made["metadata"], "name": name, "namespace": NAMESPACE}
    if owner is not None:
        meta["ownerReferences"] = [owner]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {**made["spec"], "nodeName": node},
    }


def policy(name, metric, number, *, observed=False, tainting=False):
    """A policy about one metric."""
    rule = {"metricname": metric, "operator": "GreaterThan", "target": 5}
    annotations = {"plimsoll.io/max-nodes": "100%"}
    if observed:
        annotations["plimsoll.io/enforcement"] = "observe"
    if tainting:
        annotations["plimsoll.io/actions"] = "taint, condition"
        annotations["plimsoll.io/taint-effect"] = "NoSchedule"
    meta = {"name": name, "namespace": NAMESPACE, "labels": {OURS: str(number)}}
    return {
        "apiVersion": "telemetry.intel.com/v1alpha1",
        "kind": "TASPolicy",
        "metadata": {**meta, "annotations": annotations},
        "spec": {
            "strategies": {name: {"rules": [rule]} for name in ("dontschedule", "deschedule")}
        },
    }
