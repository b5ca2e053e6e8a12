"""Values of the Helm chart that its tests share."""

from pathlib import Path

from release import chart as generator

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "chart"
COMPONENTS = [name for name in generator.components() if name not in generator.SOURCES]
BUNDLE = {"customMetrics": {"caBundle": "Q0E="}}
EXISTING = {"certificates": {"mode": "existing-secrets"}}
JOB = {"certificates": {"mode": "job"}}
EVERYTHING = {
    "commonLabels": {"team": "nodes"},
    "imagePullSecrets": [{"name": "registry"}],
    "certificates": {"issuerRef": {"name": "company", "kind": "ClusterIssuer"}},
    "monitoring": {
        "enabled": True,
        "labels": {"release": "prometheus"},
        "namespace": "monitoring",
        "interval": "30s",
    },
    **{
        program: {
            "image": {"registry": "r", "repository": program, "tag": "v2", "pullPolicy": "Always"},
            "extraArgs": ["--log.level=debug"],
            "extraEnv": [{"name": "TZ", "value": "UTC"}],
            "extraVolumes": [{"name": "more", "emptyDir": {}}],
            "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
            "resources": {"limits": {"memory": "2Gi"}},
            "tolerations": [{"operator": "Exists"}],
            "nodeSelector": {"pool": "a"},
            "affinity": {"nodeAffinity": {}},
            "topologySpreadConstraints": [
                {"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}
            ],
            "priorityClassName": "system-cluster-critical",
            "podAnnotations": {"note": "a"},
            "podLabels": {"tier": "b"},
            "podSecurityContext": {"runAsUser": 5},
            "securityContext": {"readOnlyRootFilesystem": True},
            "serviceAccount": {"name": f"my-{program}", "annotations": {"role": "c"}},
        }
        for program in ("agent", "evaluator")
    },
}
EVERYTHING["agent"] |= {
    "port": 9200,
    "hostNetwork": True,
    "networkPolicy": {
        "namespaces": ["metrics", "more"],
        "from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
    },
}
EVERYTHING["evaluator"] |= {
    "replicas": 1,
    "pagesFrom": ["10.7.0.1/32", "fd00::/8"],
    "podDisruptionBudget": {"maxUnavailable": "50%"},
    "networkPolicy": {
        "agentsFrom": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
        "namespaces": ["metrics"],
        "from": [{"ipBlock": {"cidr": "10.9.0.0/16"}}],
        "ingress": [{"ports": [{"port": 8080}]}],
    },
}
