"""Node objects of the size in managed clusters: 11 to 14 KB of JSON each."""

import hashlib
import random
from collections.abc import Iterable
from typing import Any

from sandbox.controllers import nodes as sandboxed

Object = dict[str, Any]

_BORN = "2026-03-02T08:14:05Z"
_HEARD = "2026-03-19T16:40:51Z"
_EPOCH = 1772439245.0
_PROBLEMS = (
    "KernelDeadlock",
    "ReadonlyFilesystem",
    "FrequentKubeletRestart",
    "FrequentContainerdRestart",
    "FrequentUnregisterNetDevice",
    "CorruptDockerOverlay2",
)
_IMAGES = (
    "registry.k8s.io/kube-proxy",
    "registry.k8s.io/pause",
    "registry.k8s.io/sig-storage/csi-node-driver-registrar",
    "registry.k8s.io/sig-storage/livenessprobe",
    "quay.io/prometheus/node-exporter",
    "quay.io/cilium/cilium",
    "docker.io/grafana/promtail",
    "docker.io/library/nginx",
    "docker.io/library/redis",
    "ghcr.io/example/orders-api",
    "ghcr.io/example/payments-worker",
    "ghcr.io/example/image-resizer",
)


def node(name: str, index: int) -> Object:
    """Return a deterministic Node."""
    rng = random.Random(index)
    found = sandboxed.node_object(name, index % 250, now=_EPOCH)
    zone = f"westeurope-{index % 3 + 1}"
    found["metadata"] |= {
        "uid": _uid(f"{name}/uid"),
        "resourceVersion": str(90_000_000 + index),
        "creationTimestamp": _BORN,
        "labels": found["metadata"]["labels"] | _labels(index, zone),
        "annotations": _annotations(name, rng),
        "managedFields": list(_managed_fields()),
    }
    found["spec"] |= {"providerID": f"azure:///subscriptions/{_uid(name)}/virtualMachines/{name}"}
    if index % 10 == 0:
        found["spec"]["taints"] = [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]
    status = found["status"]
    status["conditions"] = [*status["conditions"], *_problem_conditions()]
    status["images"] = [_image(rng) for _ in range(rng.randint(14, 22))]
    status["volumesInUse"] = [_volume(rng) for _ in range(3)]
    status["volumesAttached"] = [
        {"name": volume, "devicePath": ""} for volume in status["volumesInUse"]
    ]
    return found


def _uid(text: str) -> str:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}"


def _labels(index: int, zone: str) -> dict[str, str]:
    return {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/instance-type": "Standard_D16s_v5",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.azure.com/mode": "user",
        "kubernetes.azure.com/agentpool": f"general{index % 7}",
        "kubernetes.azure.com/node-image-version": "AKSUbuntu-2204gen2containerd-202603.12.0",
        "failure-domain.beta.kubernetes.io/region": "westeurope",
        "failure-domain.beta.kubernetes.io/zone": zone,
        "feature.node.kubernetes.io/cpu-cpuid.AVX512F": "true",
        "feature.node.kubernetes.io/kernel-version.major": "6",
        "node.kubernetes.io/instance-type": "Standard_D16s_v5",
        "team.example.com/cost-center": f"cc-{1000 + index % 40}",
        "topology.disk.csi.azure.com/zone": zone,
        "topology.kubernetes.io/region": "westeurope",
        "topology.kubernetes.io/zone": zone,
    }


def _annotations(name: str, rng: random.Random) -> dict[str, str]:
    driver = f'{{"disk.csi.azure.com":"{name}","file.csi.azure.com":"{name}"}}'
    return {
        "alpha.kubernetes.io/provided-node-ip": f"10.128.{rng.randint(0, 255)}.{rng.randint(1, 254)}",
        "csi.volume.kubernetes.io/nodeid": driver,
        "node.alpha.kubernetes.io/ttl": "15",
        "nfd.node.kubernetes.io/feature-labels": ",".join(
            f"cpu-cpuid.{feature}" for feature in ("ADX", "AESNI", "AVX", "AVX2", "AVX512F", "VNNI")
        ),
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    }


def _problem_conditions() -> Iterable[Object]:
    for kind in _PROBLEMS:
        yield {
            "type": kind,
            "status": "False",
            "lastHeartbeatTime": _HEARD,
            "lastTransitionTime": _BORN,
            "reason": f"No{kind}",
            "message": f"node is functioning properly: no {kind} was seen",
        }


def _image(rng: random.Random) -> Object:
    repository = rng.choice(_IMAGES)
    version = f"{rng.randint(1, 9)}.{rng.randint(0, 40)}.{rng.randint(0, 20)}"
    names = [f"{repository}@sha256:{rng.getrandbits(256):064x}", f"{repository}:v{version}"]
    return {"names": names, "sizeBytes": rng.randint(300_000, 900_000_000)}


def _volume(rng: random.Random) -> str:
    return f"kubernetes.io/csi/disk.csi.azure.com^pvc-{rng.getrandbits(128):032x}"


def _managed_fields() -> Iterable[Object]:
    """Return managedFields, most of which is the kubelet's status."""
    labels = {f"f:{key}": {} for key in _labels(0, "")}
    yield _entry("kubelet", "", {"f:metadata": {"f:annotations": {".": {}}, "f:labels": labels}})
    yield _entry(
        "kube-controller-manager", "", {"f:spec": {"f:podCIDR": {}, "f:podCIDRs": {".": {}}}}
    )
    fields = (
        "f:lastHeartbeatTime",
        "f:lastTransitionTime",
        "f:message",
        "f:reason",
        "f:status",
        "f:type",
    )
    own = {name: {} for name in fields}
    kubelets = ("DiskPressure", "MemoryPressure", "PIDPressure", "Ready")
    for manager, kinds in (("kubelet", kubelets), ("node-problem-detector", _PROBLEMS)):
        conditions = {f'k:{{"type":"{kind}"}}': {".": {}, **own} for kind in kinds}
        sizes = {f"f:{name}": {} for name in sandboxed.CAPACITY}
        more = (
            {"f:allocatable": sizes, "f:capacity": sizes, "f:images": {}}
            if kinds is kubelets
            else {}
        )
        yield _entry(manager, "status", {"f:status": {"f:conditions": conditions, **more}})


def _entry(manager: str, subresource: str, fields: Object) -> Object:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": _HEARD,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    } | ({"subresource": subresource} if subresource else {})
