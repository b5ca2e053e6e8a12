"""What the plugin prints, from pages as the evaluator answers them."""

import pytest

from kubectl_plimsoll import pods, views
from kubectl_plimsoll.table import Cell, Style, table

POD = {
    "pod": "shop/web",
    "turnedAwayByPlimsoll": True,
    "summary": "policy shop/demo refuses 2 of 2 feasible nodes",
    "policy": {"name": "shop/demo", "applies": True, "mode": "enforce"},
    "gates": [],
    "schedulerReason": "Unschedulable",
    "schedulerMessage": "0/3 nodes are available",
    "nodes": {
        "hot": {
            "obstacles": [],
            "refused": "violating demo: m GreaterThan 5",
            "rules": [
                {
                    "rule": "m GreaterThan 5",
                    "value": 9.5,
                    "ageSeconds": 2.25,
                    "state": "fresh",
                    "violated": True,
                },
                {
                    "rule": "m LessThan 0",
                    "value": 9.5,
                    "ageSeconds": 2.25,
                    "state": "fresh",
                    "violated": False,
                },
            ],
        },
        "silent": {
            "obstacles": ["the node is cordoned"],
            "refused": None,
            "rules": [
                {
                    "rule": "m GreaterThan 5",
                    "value": None,
                    "ageSeconds": None,
                    "state": "missing: never reported",
                    "violated": False,
                }
            ],
        },
    },
}


def lines(view, page, *, coloured=False, wide=False):
    return list(view(page, Style(coloured), wide))


def test_pod_has_the_answer_first_and_the_violated_rule_of_each_node():
    found = lines(pods.pod, POD)
    assert found[:3] == [
        "pod:                     shop/web",
        "turned away by Plimsoll: yes",
        "why:                     policy shop/demo refuses 2 of 2 feasible nodes",
    ]
    assert found[-3:] == [
        "NODE     RESULT         RULE              VALUE     AGE   OBSTACLES",
        "hot      refused        m GreaterThan 5   9.5       2s    -",
        "silent   not feasible   m GreaterThan 5   missing   -     the node is cordoned",
    ]


def test_error_of_kube_scheduler_is_told_apart_from_its_refusals():
    assert "kube-scheduler:          0/3 nodes are available" in lines(pods.pod, POD)
    page = POD | {"schedulerReason": "SchedulerError", "schedulerMessage": "dial tcp: refused"}
    assert "kube-scheduler:          SchedulerError: dial tcp: refused" in lines(pods.pod, page)


def test_wide_shows_all_rules_of_a_node():
    assert sum("m LessThan 0" in line for line in lines(pods.pod, POD, wide=True)) == 1


@pytest.mark.parametrize(("value", "word"), [(True, "yes"), (False, "no"), (None, "unknown")])
def test_colour_repeats_what_the_word_says(value, word):
    page = POD | {"turnedAwayByPlimsoll": value}
    assert lines(pods.pod, page)[1] == f"turned away by Plimsoll: {word}"
    coloured = lines(pods.pod, page, coloured=True)[1]
    assert coloured.startswith("turned away by Plimsoll: \x1b[")
    assert word in coloured


def test_nominated_node_of_a_pod_is_shown():
    assert "nominated node:          n1" in lines(pods.pod, POD | {"nominatedNode": "n1"})
    assert not any("nominated" in line for line in lines(pods.pod, POD))


def test_columns_are_aligned_whatever_the_colours():
    rows = [["a", Cell("bad", "bad")], ["long", Cell("", "")]]
    assert table(["X", "Y"], rows, Style()) == ["X      Y", "a      bad", "long   -"]
    coloured = table(["X", "Y"], [["a", Cell("v", "good")]], Style(coloured=True))
    assert coloured[1] == "a   \x1b[32mv\x1b[0m"


def test_names_cannot_control_the_terminal():
    page = POD | {"summary": "a\x1b[2Jb\nc", "nodes": {"n\x1b]0;x": {"obstacles": ["\n"]}}}
    assert not any("\x1b" in line or "\n" in line for line in lines(pods.pod, page))


HOSTILE = "\x1b[2J\n\x9b"


@pytest.mark.parametrize("coloured", [False, True])
@pytest.mark.parametrize(
    ("view", "page"),
    [
        (views.status, {"waitingFor": [HOSTILE], "nodeCount": HOSTILE}),
        (views.policies, {"policies": [], "policiesMore": 0}),
        (views.node, {"node": HOSTILE, "ready": HOSTILE, "labels": {HOSTILE: HOSTILE}}),
        (
            pods.pod,
            {
                "pod": HOSTILE,
                "policy": {"name": HOSTILE, "applies": True, "mode": HOSTILE},
                "schedulerReason": HOSTILE,
                "schedulerMessage": HOSTILE,
            },
        ),
        (views.policy, {"policy": HOSTILE, "enforcement": {"mode": HOSTILE, "by": HOSTILE}}),
        (pods.gang, {"gang": HOSTILE, "state": HOSTILE, "message": HOSTILE}),
    ],
)
def test_no_field_of_the_server_controls_the_terminal(view, page, coloured):
    text = "".join(lines(view, page, coloured=coloured))
    for code in ("31m", "32m", "33m", "0m"):
        text = text.replace(f"\x1b[{code}", "")
    assert text.isprintable()


def test_observed_policy_shows_what_enforcement_would_change():
    page = {
        "policy": "shop/demo",
        "enforcement": {
            "mode": "observe",
            "by": "--observe",
            "evict": False,
            "wouldChange": {
                "nodesRefused": ["a", "b", "c", "d"],
                "nodesLabelled": [],
                "podsEvicted": [],
            },
        },
        "problems": ["strategy 'x' is unknown"],
        "strategies": {
            "dontschedule": {"rules": [{"rule": "m Equals 1", "broken": ["a"], "brokenMore": 3}]}
        },
        "scheduleonmetric": {"metric": "m", "order": "lower is better"},
    }
    assert lines(views.policy, page) == [
        "policy:   shop/demo",
        "mode:     observe (by --observe)",
        "problem:  strategy 'x' is unknown",
        "enforced: nodes refused: a, b, c and 1 more",
        "enforced: nodes labelled: -",
        "enforced: pods evicted: -",
        "",
        "STRATEGY           RULE                 VIOLATED ON",
        "dontschedule       m Equals 1           4 (a and 3 more)",
        "scheduleonmetric   m, lower is better   -",
    ]


def test_status_counts_policies_and_names_what_the_evaluator_waits_for():
    one = {
        "policy": "a/b",
        "dontschedule": ["n"],
        "deschedule": [],
        "enforcement": "observe",
        "problems": [],
    }
    page = {"waitingFor": ["nodes"], "nodeCount": 3, "policies": [one]}
    assert lines(views.status, page) == [
        "evaluator: waits for nodes",
        "nodes:     3",
        "policies:  1, 1 violated, 1 observed, 0 with problems, 0 with warnings",
    ]


def test_status_has_the_last_restart_of_the_agents_port():
    page = {"waitingFor": [], "nodeCount": 3, "policies": []}
    port = {"restarts": 0, "lastRestartSeconds": None, "reason": None}
    older = lines(views.status, page)
    assert lines(views.status, page | {"agentsPort": None}) == older
    assert lines(views.status, page | {"agentsPort": port}) == older
    port = {"restarts": 2, "lastRestartSeconds": 90.4, "reason": "ended\nwith status -9"}
    assert lines(views.status, page | {"agentsPort": port})[2] == (
        "port:      agents' port restarted 2 times, last 1m30s ago: ended\\nwith status -9"
    )


def test_problems_and_warnings_are_counted_and_wide_has_their_texts():
    one = {
        "policy": "a/b",
        "dontschedule": [],
        "deschedule": [],
        "enforcement": "enforce",
        "problems": ["no node has the metric m"],
        "warnings": ["x_total is a counter"],
    }
    page = {"waitingFor": [], "nodeCount": 3, "policies": [one]}
    assert lines(views.status, page)[2:] == [
        "policies:  1, 0 violated, 0 observed, 1 with problems, 1 with warnings",
        "problem:   a/b: no node has the metric m",
        "warning:   a/b: x_total is a counter",
    ]
    many = page | {"policies": [one] * 7}
    assert lines(views.status, many)[-1] == "and 4 more: kubectl plimsoll policies -A -o wide"
    assert len(lines(views.status, many)) == 3 + 10 + 1
    assert lines(views.policies, page)[1].split()[-2:] == ["1", "1"]
    wide = lines(views.policies, page, wide=True)[1]
    assert "no node has the metric m   x_total is a counter" in wide
    older = {name: value for name, value in one.items() if name != "warnings"}
    assert lines(views.policies, page | {"policies": [older]})[1].split()[-2:] == ["1", "0"]


def test_policy_and_its_pods_have_problems_and_warnings():
    flaws = {"problems": ["no node has the metric m"], "warnings": ["x_total is a counter"]}
    found = lines(views.policy, {"policy": "a/b", **flaws})
    assert found[2:] == ["problem:  no node has the metric m", "warning:  x_total is a counter"]
    found = lines(pods.pod, POD | {"policy": POD["policy"] | flaws})
    assert "problem of the policy:   no node has the metric m" in found
    assert "warning of the policy:   x_total is a counter" in found


def test_pod_that_the_policy_does_not_apply_to_says_why():
    why = "policy demo has no effect on where this pod is placed"
    policy = {"name": "a/b", "applies": False, "problem": why}
    bound = POD | {"policy": policy, "summary": "it is bound to node-a"}
    assert f"why it does not apply:   {why}" in lines(pods.pod, bound)
    pending = POD | {"policy": policy, "summary": f"{why}; Plimsoll permits it"}
    assert not any(line.startswith("why it") for line in lines(pods.pod, pending))


def test_readings_have_their_units_and_differ_from_the_target():
    rule = {
        "rule": "node_memory_MemAvailable_bytes LessThan 64Gi",
        "targetValue": 2.0**36,
        "value": 2.0**36 - 2**20,
        "ageSeconds": 1,
        "state": "fresh",
        "violated": True,
    }
    page = POD | {"nodes": {"a": {"obstacles": [], "refused": "x", "rules": [rule]}}}
    assert "LessThan 64Gi   63.999 GiB   1s" in lines(pods.pod, page)[-1]


def test_reading_names_its_device():
    rule = {
        "rule": "health_metric GreaterThan 0",
        "targetValue": 0,
        "value": 2,
        "ageSeconds": 1,
        "state": "fresh",
        "cause": "gpu: UUID=GPU-1",
        "violated": True,
    }
    page = POD | {"nodes": {"a": {"obstacles": [], "refused": "x", "rules": [rule]}}}
    assert "2 (gpu: UUID=GPU-1)" in lines(pods.pod, page)[-1]


def test_gang_has_state_reason_and_pods():
    page = {
        "gang": "r/train",
        "state": "waits",
        "message": "2 of 4 pods fit",
        "problems": [],
        "obstacles": ["quota"],
        "members": {"train-0": {"state": "held", "node": None, "gates": ["plimsoll.io/gang"]}},
    }
    assert lines(pods.gang, page) == [
        "gang:    r/train",
        "state:   waits",
        "message: 2 of 4 pods fit",
        "problem: quota",
        "",
        "POD       STATE   NODE",
        "train-0   held    -",
    ]


def test_pods_placed_since_the_readings_and_what_they_add_are_shown():
    one = {"metric": "m", "pods": 3, "counted": 1.2}
    sentence = "3 pods placed since this reading, counted as 1.2 cores"
    page = {**POD, "nodes": {"hot": {**POD["nodes"]["hot"], "placed": [{**one, "text": sentence}]}}}
    page["requestsDecide"] = "requests decide: too much of cpu on 2 nodes"
    found = lines(pods.pod, page)
    assert f"hot: m: {sentence}" in found
    assert any("requests decide: too much of cpu" in line for line in found)
    adds = {"m": {"text": "a pod adds 0.8 cores: the median of 6 trials"}}
    found = lines(views.policy, {"policy": "ns/demo", "podsAdd": adds})
    assert "its pods: m: a pod adds 0.8 cores: the median of 6 trials" in found


def test_explained_pod_has_its_last_decision_with_the_readings_then():
    decision = {
        "at": "2026-11-20T09:15:04Z",
        "policy": "shop/demo",
        "mode": "enforce",
        "candidates": 3,
        "refused": 1,
        "refusedNodes": [{"node": "hot", "reason": "r", "readings": {"m_bytes": 2048.0}}],
        "rankedBy": "m_bytes",
        "ranked": [{"node": "cold\x1b", "score": 10, "reading": None}],
        "chosen": "cold",
        "chosenAt": "2026-11-20T09:15:05Z",
        "readings": {"m_bytes": 1024.0},
    }
    page = {**POD, "past": {"decision": decision}}
    lines = [" ".join(line.split()) for line in pods.pod(page, Style(), wide=False)]
    begin = lines.index("last decision: 1 of 3 nodes refused at 2026-11-20T09:15:04Z by shop/demo")
    assert lines[begin + 1 : begin + 4] == [
        "refused: hot: m_bytes=2 KiB",
        "ranked: cold\\u001b: 10 of 10, m_bytes=no reading",
        "chosen: cold at 2026-11-20T09:15:05Z: m_bytes=1 KiB",
    ]


def test_peers_of_a_reading_and_nodes_held_back_are_shown():
    peers = {"metric": "latency", "group": "big", "nodes": 40, "median": 10.0, "reading": 30.0}
    reading = {"value": 9.5, "state": "fresh", "ageSeconds": 1.0, "peers": peers}
    entry = {"mode": "enforce", "dontschedule": "x", "deschedule": None, "readings": {"m": reading}}
    lines = views.node({"node": "a", "policies": {"ns/p": entry}}, Style(), wide=True)
    assert "m=9.5 (30, median of 40 peers 10)" in "\n".join(lines)
    infinite = {**reading, "value": "inf", "peers": {**peers, "reading": "inf", "median": "-inf"}}
    entry["readings"] = {"m": infinite}
    lines = views.node({"node": "a", "policies": {"ns/p": entry}}, Style(), wide=True)
    assert "m=inf (inf, median of 40 peers -inf)" in "\n".join(lines)
    policy = {"policy": "ns/p", "enforcement": "enforce", "problems": []}
    policy |= {"dontschedule": ["a"], "dontscheduleHeldBack": 7, "deschedule": []}
    assert "1 (a), 7 held back" in "\n".join(views.policy_table([policy], Style(), wide=False))


def test_node_has_its_scores_and_their_devices():
    one = {
        "score": 2.5,
        "lastViolation": "2026-11-20T09:15:04Z",
        "violated": True,
        "flapping": True,
    }
    other = {"device": "UUID=GPU-1\x1b[31m", "score": 1.0, "lastViolation": "2026-11-20T09:15:04Z"}
    page = {
        "node": "a",
        "written": {
            "memory": {
                "ns/demo": {**one, "devices": [other]},
                "ns/x": {**one, "flapping": False, "devices": []},
            }
        },
    }
    *_, head, first, second = views.node(page, Style(), False)
    assert head.split() == ["MEMORY", "OF", "SCORE", "FLAPS", "LAST", "VIOLATION", "DEVICES"]
    assert first.split(maxsplit=4)[:4] == ["ns/demo", "2.5", "flapping", "2026-11-20T09:15:04Z"]
    assert first.endswith("UUID=GPU-1\\u001b[31m: 1")
    assert second.endswith(" -")


def test_list_of_nodes_names_devices():
    node = {"violates": {"ns/p": ["deschedule"]}, "labels": {}, "causes": ["gpu: UUID=GPU-1\x1b"]}
    found = lines(views.nodes, {"nodes": {"a": node}})
    assert found[-1].split("  ")[0] == "a"
    assert "ns/p: deschedule (gpu: UUID=GPU-1\\u001b)" in found[-1]


def test_flapping_nodes_and_scores_are_shown_wherever_policies_and_nodes_are():
    listed = {"policy": "ns/p", "enforcement": "enforce", "problems": []}
    listed |= {"dontschedule": ["a"], "deschedule": []}
    calm = listed | {"policy": "ns/calm", "flapping": []}
    listed |= {"flapping": ["a", "b\x1b", "c", "d"], "flappingMore": 2}
    assert lines(views.status, {"policies": [listed, calm], "nodeCount": 9})[3:] == [
        "flapping:  ns/p: a, b\\u001b, c and 3 more"
    ]
    head, row, other = views.policy_table([listed, calm], Style(), wide=False)
    assert head.split()[-1] == "FLAPPING"
    assert row.endswith("a, b\\u001b, c and 3 more")
    assert other.split()[-1] == "-"
    without = {name: value for name, value in calm.items() if name != "flapping"}
    assert "FLAPPING" not in views.policy_table([without], Style(), wide=False)[0]
    scores = [
        {"node": name, "score": score, "violated": True, "flapping": score > 3, "devices": [], "lastViolation": "2026-11-20T09:15:04Z"}
        for name, score in (("a", 4.5), ("b\x1b", 3.2), ("c", 1.0))
    ]  # fmt: skip
    memory = {"halfLifeSeconds": 2592000.0, "flappingAbove": 3.0, "nodes": scores, "nodesMore": 7}
    assert lines(views.policy, {"policy": "ns/p", "memory": memory})[2:] == [
        "memory:   scores halve in 720h; nodes flap above 3.0",
        "flapping: a 4.5, b\\u001b 3.2",
        "scores:   c 1.0 and 7 more",
    ]
    never = memory | {"flappingAbove": None, "nodes": [], "nodesMore": 0}
    assert "nodes flap never" in lines(views.policy, {"policy": "ns/p", "memory": never})[2]


def test_pods_that_stay_are_shown_with_what_keeps_them():
    kept = [
        {"why": "nothing would recreate them", "pods": ["shop/bare"]},
        {
            "why": "PodDisruptionBudget db permits no eviction now",
            "pods": ["shop/a"],
            "podsMore": 7,
        },
    ]
    page = {"policy": "shop/calm", "podsStay": kept, "successors": "checked against some pods"}
    shown = lines(views.policy, page, wide=True)[2:]
    assert shown == [
        "stay:     shop/bare: nothing would recreate them",
        "stay:     shop/a and 7 more: PodDisruptionBudget db permits no eviction now",
        "evicted:  successors are checked against some pods",
    ]
    pod = POD | {"notEvicted": "nothing would recreate them"}
    assert "not evicted:             nothing would recreate them" in lines(pods.pod, pod)


def test_pod_that_is_gone_says_how_it_was_evicted():
    successors = [{"pod": "shop/web-2", "node": "cool"}, {"pod": "shop/web-3", "node": None}]
    evicted = {
        "at": "2026-11-20T09:15:04.000Z",
        "policy": "shop/demo",
        "node": "hot",
        "why": "policy shop/demo is violated: m GreaterThan 5 (reading 9.5)",
        "successors": successors,
    }
    page = {"pod": "shop/web-1", "summary": "gone", "evicted": evicted, "nodes": {}}
    lines = [" ".join(line.split()) for line in pods.pod(page, Style(), wide=False)]
    assert lines == [
        "pod: shop/web-1",
        "gone: evicted at 2026-11-20T09:15:04.000Z from hot",
        "by policy: shop/demo",
        f"why: {evicted['why']}",
        "successor: shop/web-2 on cool",
        "successor: shop/web-3 waits",
    ]
