"""The chart's second DaemonSet: each node runs exactly one agent, and those of nodes with GPUs reach NVIDIA's library."""

import itertools
import json
import shutil

import pytest

pytest.importorskip("helm_python", reason="helm-python-sdk has no wheel here")
pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH")

PRESENT = "nvidia.com/gpu.present"
LINUX = {"kubernetes.io/os": "linux"}
OTHER, GPU = ("DaemonSet", "plimsoll-agent"), ("DaemonSet", "plimsoll-agent-gpu")


def matches(term, labels):
    """Whether a node selector term matches; only In, NotIn and Exists."""
    found = [
        {
            "In": labels.get(one["key"]) in one.get("values", ()),
            "NotIn": labels.get(one["key"]) not in one.get("values", ()),
            "Exists": one["key"] in labels,
        }[one["operator"]]
        for one in term.get("matchExpressions", ())
    ]
    return bool(found) and all(found)


def admits(daemonset, labels):
    """Whether the pods of a DaemonSet fit a node with these labels."""
    pod = daemonset["spec"]["template"]["spec"]
    if any(labels.get(key) != value for key, value in pod.get("nodeSelector", {}).items()):
        return False
    node = pod.get("affinity", {}).get("nodeAffinity", {})
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(matches(term, labels) for term in required["nodeSelectorTerms"])


def every_node(*choices):
    """Linux nodes with every combination of these labels."""
    for chosen in itertools.product(*choices):
        yield LINUX | {key: value for key, value in chosen if value is not None}


def values(*keys):
    return [[(key, value) for value in (None, "true", "false", "a")] for key in keys]


@pytest.mark.parametrize(
    ("given", "elsewhere"),
    [
        ({}, lambda _: False),
        ({"gpu": {"nodeSelector": {PRESENT: "true", "pool": "a"}}}, lambda _: False),
        ({"nodeSelector": {"pool": "a"}}, lambda labels: labels.get("pool") != "a"),
        ({"nodeSelector": LINUX}, lambda _: False),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "pool", "operator": "Exists"}]},
                                {
                                    "matchExpressions": [
                                        {"key": "zone", "operator": "In", "values": ["a", "true"]}
                                    ]
                                },
                            ]
                        }
                    }
                },
                "gpu": {"nodeSelector": {PRESENT: "true", "kind": "true"}},
            },
            lambda labels: "pool" not in labels and labels.get("zone") not in {"a", "true"},
        ),
    ],
    ids=["default", "two labels", "node selector", "the same selector", "affinity"],
)
def test_each_node_is_in_exactly_one_daemonset(render, given, elsewhere):
    agent = {**given, "gpu": {"enabled": True, **given.get("gpu", {})}}
    objects = render({"agent": agent})
    selector = {PRESENT: "true"} | agent["gpu"].get("nodeSelector", {})
    seen = set()
    for labels in every_node(*values(PRESENT, "pool", "zone", "kind")):
        where = [key for key in (OTHER, GPU) if admits(objects[key], labels)]
        if elsewhere(labels):
            assert where == []
            continue
        with_gpu = all(labels.get(key) == value for key, value in selector.items())
        assert where == [GPU if with_gpu else OTHER], labels
        seen.update(where)
    assert seen == {OTHER, GPU}


def test_agents_run_on_linux_only(render):
    objects = render({"agent": {"gpu": {"enabled": True}}})
    for key in (OTHER, GPU):
        assert not admits(objects[key], {"kubernetes.io/os": "windows", PRESENT: "true"})


def test_only_the_second_daemonset_has_a_runtime_class_and_nvidias_environment(render):
    objects = render({"agent": {"gpu": {"enabled": True}}})
    other, gpu = (objects[key]["spec"]["template"]["spec"] for key in (OTHER, GPU))
    assert "runtimeClassName" not in other
    assert gpu["runtimeClassName"] == "nvidia"
    environment = {one["name"]: one.get("value") for one in gpu["containers"][0]["env"]}
    assert environment["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert environment["NVIDIA_DRIVER_CAPABILITIES"] == "utility"
    assert "nvidia" not in json.dumps(other["containers"]).lower()
    assert "nvidia.com/gpu" not in json.dumps(gpu["containers"])  # it would take a GPU from pods


def test_daemonsets_differ_in_nothing_else(render):
    objects = render({"agent": {"gpu": {"enabled": True}}, "components": {"kernelLog": True}})
    other, gpu = (json.loads(json.dumps(objects[key])) for key in (OTHER, GPU))
    for body in (other, gpu):
        template = body["spec"]["template"]
        for labels in (body["spec"]["selector"]["matchLabels"], template["metadata"]["labels"]):
            labels.pop("app.kubernetes.io/component", None)
        for field in ("nodeSelector", "affinity", "runtimeClassName"):
            template["spec"].pop(field, None)
        environment = template["spec"]["containers"][0]["env"]
        environment[:] = [one for one in environment if not one["name"].startswith("NVIDIA_")]
        del body["metadata"]["name"]
    assert other == gpu


def test_pods_of_both_are_selected_as_agents_and_by_one_daemonset(render):
    objects = render({"agent": {"gpu": {"enabled": True}}, "monitoring": {"enabled": True}})
    labels = objects[GPU]["spec"]["template"]["metadata"]["labels"]
    for key in (("NetworkPolicy", "plimsoll-agent"), ("PodMonitor", "plimsoll-agent")):
        spec = objects[key]["spec"]
        selector = spec.get("podSelector") or spec["selector"]
        assert selector["matchLabels"].items() <= labels.items()
    own = objects[GPU]["spec"]["selector"]["matchLabels"]
    assert own.items() <= labels.items()
    others = objects[OTHER]["spec"]["template"]["metadata"]["labels"]
    assert not own.items() <= others.items()


def test_runtime_class_may_be_the_nodes_default(render):
    objects = render({"agent": {"gpu": {"enabled": True, "runtimeClassName": ""}}})
    assert "runtimeClassName" not in objects[GPU]["spec"]["template"]["spec"]


def test_there_is_one_daemonset_by_default(render):
    objects = render()
    assert GPU not in objects
    assert "affinity" not in objects[OTHER]["spec"]["template"]["spec"]


def test_empty_selector_of_gpu_nodes_is_refused(render):
    nothing = {"agent": {"gpu": {"enabled": True, "nodeSelector": {PRESENT: None}}}}
    with pytest.raises(Exception, match="name a label of the nodes with GPUs"):
        render(nothing)


def test_problem_configurations_of_values_are_beside_or_in_place_of_the_shipped_one(render):
    key, mine = ("ConfigMap", "plimsoll-problems"), {"mine.json": '{"plugin": "kmsg"}\n'}
    on = {"components": {"kernelLog": True}}
    assert render(on)[key]["data"].keys() == {"kernel.json"}
    beside = render({**on, "problems": {"files": mine}})[key]["data"]
    assert beside.keys() == {"kernel.json", "mine.json"}
    assert beside["mine.json"] == mine["mine.json"]
    alone = {**on, "problems": {"shipped": False, "files": mine}}
    assert render(alone)[key]["data"] == mine
