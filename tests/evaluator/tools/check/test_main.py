"""plimsoll check: output and exit status."""

import io
import json
import re
import sys

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.tools.check import main
from sandbox import manifests
from sandbox.apiserver.kinds import schema
from tests import preloaded
from tests.examples import examples

CRD = next(manifests.crds())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
OWN = "a text file, a recording rule or another source of yours has to"
RULE = {"metricname": "m", "operator": "GreaterThan", "target": 5}


def policy(name="demo", *, namespace="ns", **strategies):
    """A manifest; a strategy is a list of rules or any other value."""
    wrapped = {
        key: {"rules": body} if isinstance(body, list) else body for key, body in strategies.items()
    }
    return {
        "apiVersion": "telemetry.intel.com/v1alpha1",
        "kind": "TASPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"strategies": wrapped},
    }


@pytest.fixture
def check(tmp_path, capsys):
    """Check a text, or objects as YAML; return the exit status and the lines without the file name."""

    def run(*given):
        path = tmp_path / "policy.yaml"
        text = given[0] if isinstance(given[0], str) else yaml.safe_dump_all(given)
        path.write_text(text)
        status = main.main([str(path)])
        return status, capsys.readouterr().out.replace(str(path), "FILE").splitlines()

    return run


@pytest.fixture
def warned(check):
    """The warnings about a policy without errors."""

    def run(**strategies):
        status, lines = check(policy(**strategies))
        assert status == 0, lines
        return [line.partition("warning: ")[2] for line in lines if "warning: " in line]

    return run


def test_valid_policy_is_described_in_sentences(check):
    patient = {
        **RULE,
        "target": "1500m",
        "for": "30s",
        "clearAfter": "90s",
        "whenMissing": "violate",
    }
    status, lines = check(
        policy(
            dontschedule=[RULE, {**RULE, "operator": "Equals", "target": -1}],
            deschedule={"rules": [RULE, {**RULE, "metricname": "o"}], "logicalOperator": "allOf"},
            scheduleonmetric=[{"metricname": "m", "operator": "LessThan"}],
            labeling=[{**patient, "labels": ["hot=yes", "tier=low"]}],
        )
    )  # fmt: skip
    key = "telemetry.aware.scheduling.demo"
    assert (status, lines) == (
        0,
        [
            "FILE: policy ns/demo",
            "  deschedule: where all of these rules match, the node is labelled demo=violating, and pods of this policy are to leave the node",
            "    1. Matches while m is above 5.",
            "    2. Matches while o is above 5.",
            "  dontschedule: where any of these rules matches, no new pod of this policy is scheduled on the node",
            "    1. Matches while m is above 5.",
            "    2. Matches while m is exactly -1.",
            "  labeling: where this rule matches, the node gets the labels",
            "    1. Matches once m has been above 1500m (1.5) for 30s, until 1m30s after it no longer is. A missing reading "
            f"counts as a match. Sets {key}/hot=yes and {key}/tier=low.",
            "  scheduleonmetric: nodes are ranked for new pods of this policy",
            "    1. Lower values of m are better; nodes without a reading are not ranked.",
            f"  not shipped: no collector or rule of Plimsoll exports m: {OWN}",
            f"  not shipped: no collector or rule of Plimsoll exports o: {OWN}",
            "1 policy, 0 errors, 0 warnings",
        ],
    )


def test_clear_after_without_for_is_described(check):
    _, lines = check(policy(dontschedule=[{**RULE, "clearAfter": "1m"}]))
    assert "    1. Matches while m is above 5, and 1m longer." in lines


def test_other_objects_are_skipped_and_lists_are_expanded(check):
    others = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}
    a, b, c = (policy(name, dontschedule=[RULE]) for name in "abc")
    items = {"apiVersion": "v1", "kind": "List", "items": [b, others, c]}
    status, lines = check(others, a, None, items)
    assert [line for line in lines if line.startswith("FILE")] == [
        f"FILE: policy ns/{name}" for name in "abc"
    ]
    assert (status, lines[-1]) == (0, "3 policies, 0 errors, 0 warnings")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no TASPolicy found"),
        ("kind: Namespace\n", "no TASPolicy found"),
        ("a: [", "invalid YAML"),
        ("just words", "a document is not a Kubernetes object"),
        ("[1, 2]", "a document is not a Kubernetes object"),
        ("kind: A\nkind: B\n", "line 2, column 1: kind appears twice"),
        ("kind: TASPolicy\n", "apiVersion: must be telemetry.intel.com/v1alpha1, not None"),
        ("kind: TasPolicy\napiVersion: telemetry.intel.com/v1alpha1\n", "unknown kind 'TasPolicy'"),
        ("!!python/object:os.system {}", "invalid YAML"),
        ("&a [*a]", "invalid YAML"),
        ("? [1]\n: 2", "invalid YAML"),
    ],
)
def test_invalid_policy_document_is_an_error(check, text, says):
    status, lines = check(text)
    assert status == 1
    assert any(says in line for line in lines if "  error: " in line), lines


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"targt": 1}, "spec.strategies.dontschedule.rules[0].targt: unknown field"),
        ({"for": 30}, "spec.strategies.dontschedule.rules[0].for: must be a duration"),
        ({"for": "1d"}, "spec.strategies.dontschedule.rules[0].for: must be a duration"),
        ({"for": "1us"}, "spec.strategies.dontschedule.rules[0].for: must be a duration"),
        ({"labels": ["a", 5]}, "spec.strategies.dontschedule.rules[0].labels: must be a list of"),
        ({"target": True}, "dontschedule: rule 1: target True is neither a number nor a quantity"),
        ({"target": float("inf")}, "rule 1: target inf is neither a number nor a quantity"),
        ({"whenMissing": "no"}, "rule 1: whenMissing 'no' is neither ignore nor violate"),
        ({"operator": "Above"}, "rule 1: operator 'Above' is unknown"),
        ({"metricname": "a b"}, "rule 1: metricname 'a b' is not a metric name"),
    ],
)
def test_errors_name_field_and_problem(check, change, says):
    status, lines = check(policy(dontschedule=[{**RULE, **change}]))
    assert status == 1
    errors = [line for line in lines if line.startswith("  error: ")]
    assert len(errors) == 1, errors
    assert says in errors[0]


def test_errors_of_strategies_and_policies_are_reported(check):
    bad = policy("Bad_Name", reschedule=[], deschedule={"rules": [RULE], "logicalOperator": ""})
    bad["spec"]["more"] = bad["spec"]["strategies"]["deschedule"]["policyName"] = 1
    bad["spec"]["strategies"][1] = []
    _, lines = check(bad)
    text = "\n".join(lines)
    for says in (
        "metadata.name: 'Bad_Name' is not a name",
        "spec.more: unknown field (known: strategies)",
        "deschedule.policyName: must be a string",
        "deschedule.logicalOperator: must be anyOf or allOf",
        "strategy 'reschedule' is unknown",
        "strategy '1' is unknown",
    ):
        assert says in text


@pytest.mark.parametrize(
    ("strategies", "says"),
    [
        ({}, "it has no strategies"),
        ({"dontschedule": []}, "dontschedule: it has no rules"),
        ({"dontschedule": [RULE, RULE]}, "dontschedule: rule 2 is a duplicate"),
        ({"dontschedule": [{**RULE, "target": 2**60}]}, "beyond 2^53"),
        ({"scheduleonmetric": [RULE]}, "a ranking has no target"),
        ({"scheduleonmetric": [{**RULE, "target": 0}] * 3}, "ignored: 2 rules"),
        ({"scheduleonmetric": [{**RULE, "target": 0}] * 2}, "ignored: 1 rule"),
        ({"dontschedule": [{**RULE, "labels": ["a=b"]}]}, "labels are set by the strategy labeling"),
        ({"deschedule": [RULE]}, "pods may be scheduled there again"),
        ({"deschedule": [RULE], "dontschedule": [{**RULE, "target": 6}]}, "pods may be scheduled there again"),
        (
            {"deschedule": [{**RULE, "whenMissing": "violate"}], "dontschedule": [RULE]},
            "pods are to leave a node whose telemetry fails",
        ),
        (
            {"dontschedule": [RULE, {**RULE, "operator": "LessThan", "target": 9}]},
            "every value of m matches",
        ),
        (
            {
                "dontschedule": {
                    "logicalOperator": "allOf",
                    "rules": [RULE, {**RULE, "operator": "LessThan"}],
                }
            },
            "never violated",
        ),
        (
            {
                "labeling": [
                    {**RULE, "labels": ["a=1", "b=1"]},
                    {**RULE, "labels": ["a=2", "b=1"]},
                    {**RULE, "operator": "LessThan", "metricname": "o", "labels": ["a=3", "b=1"]},
                ]
            },
            "labeling: label telemetry.aware.scheduling.demo/a is not set on nodes where rules 1 and 3 both match",
        ),
    ],
)  # fmt: skip
def test_probable_mistake_is_a_warning(warned, strategies, says):
    assert any(says in warning for warning in warned(**strategies)), warned(**strategies)


@pytest.mark.parametrize(
    ("operator", "target", "labels"),
    [
        ("LessThan", 5, ["heat=cold"]),  # no reading is above and below 5
        ("LessThan", 9, ["heat=hot"]),  # the same value
        ("GreaterThan", 9, ["heat=cold"]),  # one operator: the higher reading wins
        ("LessThan", 9, ["other=cold"]),
    ],
)
def test_labels_that_cannot_conflict_are_no_warning(warned, operator, target, labels):
    other = {**RULE, "operator": operator, "target": target, "labels": labels}
    told = warned(labeling=[{**RULE, "labels": ["heat=hot"]}, other])
    assert not any("is not set" in warning for warning in told), told


def rules(*texts):
    """A rule from `m GreaterThan 5`."""
    found = (text.split() for text in texts)
    return [{"metricname": m, "operator": o, "target": int(t)} for m, o, t in found]


@pytest.mark.parametrize(
    ("leave", "stay_away", "covered"),
    [
        (rules("m Equals 2"), rules("m Equals 1", "m Equals 2"), True),
        (rules("m Equals -1"), rules("m LessThan 10"), True),
        (rules("m Equals 10"), rules("m LessThan 10"), False),
        (rules("m Equals 11"), rules("m GreaterThan 10"), True),
        (rules("m GreaterThan 80"), rules("m GreaterThan 70"), True),
        (rules("m GreaterThan 70"), rules("m GreaterThan 80"), False),
        (rules("m LessThan 5"), rules("m LessThan 5"), True),
        (rules("m LessThan 6"), rules("m LessThan 5"), False),
        (rules("m LessThan 5"), rules("m GreaterThan 5"), False),
        (rules("m Equals 1", "o Equals 1"), rules("m Equals 1"), False),
        ({"rules": rules("m Equals 1", "o Equals 1"), "logicalOperator": "allOf"}, rules("m Equals 1"), True),
        (rules("m Equals 1"), {"rules": rules("m Equals 1", "o Equals 1"), "logicalOperator": "allOf"}, False),
        ([{**RULE, "for": "1m"}], [RULE], True),
        ([RULE], [{**RULE, "for": "1m"}], False),
        ([{**RULE, "clearAfter": "1m"}], [RULE], False),
        ([{**RULE, "clearAfter": "1m"}], [{**RULE, "clearAfter": "2m"}], True),
    ],
)  # fmt: skip
def test_warns_if_pods_could_return_to_the_node(warned, leave, stay_away, covered):
    found = warned(deschedule=leave, dontschedule=stay_away)
    assert any("pods may be scheduled there again" in warning for warning in found) is not covered


def test_standard_input_and_several_files_are_checked(tmp_path, capsys, monkeypatch):
    path = tmp_path / "one.json"
    path.write_text(json.dumps(policy("one", dontschedule=[RULE])))
    monkeypatch.setattr(sys, "stdin", io.StringIO(yaml.safe_dump(policy("two", dontschedule=[{}]))))
    assert main.main([str(path), "-", str(tmp_path / "none")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{path}: policy ns/one"
    assert "standard input: policy ns/two" in lines
    assert "  error: cannot be read: No such file or directory" in lines
    assert lines[-1] == "2 policies, 2 errors, 0 warnings"


def test_folder_is_checked_with_its_subfolders(tmp_path, capsys):
    """As `kubectl apply --recursive --filename` reads it: by file extension, in name order."""
    (tmp_path / "team" / "b").mkdir(parents=True)
    for place in ("team/b/one.yml", "team/two.yaml", "three.json"):
        name = place.rpartition("/")[2].partition(".")[0]
        (tmp_path / place).write_text(json.dumps(policy(name, dontschedule=[RULE])))
    (tmp_path / "notes.txt").write_text("not a manifest")
    (tmp_path / "team" / "rules.yaml").write_text("groups: []")
    (tmp_path / "team" / "loop").symlink_to(tmp_path)
    assert main.main([str(tmp_path)]) == 0
    said = capsys.readouterr().out
    found = re.findall(r"^/.*: policy ns/(\w+)$", said, re.MULTILINE)
    assert found == ["three", "two", "one"]
    assert said.endswith("3 policies, 0 errors, 0 warnings\n")


def test_unreadable_policy_in_a_folder_is_an_error(tmp_path, capsys):
    (tmp_path / "broken.yaml").write_text("a: [")
    assert main.main([str(tmp_path)]) == 1
    assert f"{tmp_path}/broken.yaml\n  error: invalid YAML" in capsys.readouterr().out


def test_folder_without_a_policy_is_an_error(tmp_path, capsys):
    (tmp_path / "rules.yaml").write_text("groups: []")
    assert main.main([str(tmp_path)]) == 1
    assert "no TASPolicy found" in capsys.readouterr().out


def test_binary_file_is_not_text(tmp_path, capsys):
    (tmp_path / "x").write_bytes(b"\xff\xfe\x00")
    assert main.main([str(tmp_path / "x")]) == 1
    assert "error: not a text file" in capsys.readouterr().out


@pytest.mark.e2e
@pytest.mark.features("scorers", "node_actions", "memory")
async def test_check_is_a_command_of_the_evaluator():
    command = (sys.executable, "-P", "-m", "evaluator", "check")
    folder = manifests.folder()
    files = [*folder.glob("health-metric-demo/*.yaml"), *folder.glob("examples/*.yaml")]
    status, out, err = await preloaded.run((*command, *map(str, files)))
    assert (status, err) == (0, "")
    assert out.splitlines()[-1].endswith("0 errors, 0 warnings")
    status, _, err = await preloaded.run(command)
    assert status == 2
    assert err.startswith("plimsoll check: ")


durations = st.sampled_from(
    ["30s", "0", "1m30s", "30", "1.5h", "1us", "", "-1s", "1s" * 20, 5, None]
)
fields = {
    "metricname": st.sampled_from(["m", "a/b", "", 5, "x-y_z", "a\n"]),
    "operator": st.sampled_from(["Equals", "LessThan", "Above", "", 1]),
    "target": st.sampled_from([0, -1, 0.5, "1500m", "x", "", True, [], {}, [1], {"a": 1}, "1e3", "1_000", "1e9999"]),
    "labels": st.sampled_from([["a=b"], [], "a=b", [1], ["bad"]]),
    "for": durations,
    "clearAfter": durations,
    "whenMissing": st.sampled_from(["ignore", "violate", "no", 1]),
}  # fmt: skip
some_rules = st.lists(st.fixed_dictionaries({}, optional=fields), max_size=3)
some_strategy = st.fixed_dictionaries(
    {},
    optional={
        "rules": some_rules | st.sampled_from([5, {}]),
        "logicalOperator": st.sampled_from(["allOf", "anyOf", "", "oneOf"]),
        "policyName": st.sampled_from(["x", 5]),
        "for": durations,
        "whenMissing": st.sampled_from(["violate", "no"]),
    },
)
names = st.sampled_from(["dontschedule", "scheduleonmetric", "deschedule", "labeling"])


def without_nulls(value):
    """The API server drops unknown fields."""
    match value:
        case dict():
            return {key: without_nulls(item) for key, item in value.items() if item is not None}
        case list():
            return [without_nulls(item) for item in value]
        case _:
            return value


@settings(max_examples=examples(100), deadline=None)
@given(st.dictionaries(names, some_strategy, max_size=3))
def test_policy_that_the_api_server_would_reject_is_an_error(strategies):
    body = policy(**strategies)
    refused = list(schema.validate(without_nulls(body), CRD))
    (found,) = main.check_text("x", json.dumps(body))
    assert found.findings.errors or not refused, refused


@pytest.mark.features("scorers")
def test_scorer_rule_is_described_per_pod_for_placement_only(check):
    risk = {"metricname": "plimsoll_risk", "operator": "GreaterThan", "target": 0.3}
    ranked = {"metricname": "plimsoll_risk", "operator": "LessThan"}
    _, lines = check(policy(dontschedule=[risk], deschedule=[risk], scheduleonmetric=[ranked]))
    says = "plimsoll_risk (for the pod being scheduled) is"
    assert [line[7:] for line in lines if line.startswith("    1. ")] == [
        "Matches while plimsoll_risk is above 0.3.",
        f"Matches while {says} above 0.3.",
        "Lower values of plimsoll_risk (for the pod being scheduled) are better; nodes without a reading are not ranked.",
    ]


@pytest.mark.parametrize(
    ("mode", "status", "says"),
    [
        ("observe", 0, "  only observed, by the annotation plimsoll.io/enforcement: nothing of"),
        ("off", 1, "  error: annotation plimsoll.io/enforcement: 'off' is neither enforce nor"),
    ],
)
def test_observed_policy_and_a_misspelt_mode_are_named(check, mode, status, says):
    found = policy(dontschedule=[RULE])
    found["metadata"]["annotations"] = {"plimsoll.io/enforcement": mode}
    code, lines = check(found)
    assert code == status
    assert any(line.startswith(says) for line in lines), lines


def acting(strategies, **annotations):
    made = policy(**strategies)
    named = {f"plimsoll.io/{key.replace('_', '-')}": text for key, text in annotations.items()}
    made["metadata"]["annotations"] = named
    return made


@pytest.mark.features("node_actions")
def test_actions_on_nodes_are_described(check):
    strategies = {"deschedule": [{**RULE, "clearAfter": "1m"}]}
    status, lines = check(
        acting(strategies, actions="taint,condition", taint_effect="NoExecute", max_nodes="3")
    )
    assert (status, lines[1:4]) == (
        0,
        [
            "  taint plimsoll.io/ns.demo:NoSchedule on violating nodes, NoExecute where deschedule is violated, on at most 3 of "
            "the nodes with its metrics, for every pod (needs --taints)",
            "  condition plimsoll.io/Demo: True on violating nodes (needs --conditions)",
            "  deschedule: where this rule matches, pods of this policy are to leave the node",
        ],
    )


@pytest.mark.features("node_actions")
def test_invalid_action_is_an_error(check):
    status, lines = check(acting({"dontschedule": [RULE]}, actions="taint", max_nodes="many"))
    assert status == 1
    assert any("annotation plimsoll.io/max-nodes: 'many' is neither" in line for line in lines)


@pytest.mark.features("node_actions")
def test_taint_without_clear_after_is_a_warning(check):
    status, lines = check(acting({"dontschedule": [RULE]}, actions="taint"))
    assert status == 0
    assert any("warning: plimsoll.io/actions: taint: without clearAfter" in line for line in lines)


SCORE = {"metricname": "violation_score_lemon", "operator": "GreaterThan", "target": 1}


@pytest.mark.features("memory")
def test_score_of_a_policy_without_memory_is_an_error(check):
    uses, lemon = policy(dontschedule=[SCORE]), policy("lemon", dontschedule=[RULE])
    status, lines = check(uses)
    assert status == 1
    nothing = "  error: nothing produces violation_score_lemon:"
    assert f"{nothing} there is no policy ns/lemon" in lines
    status, lines = check(uses, lemon)
    assert status == 1
    assert f"{nothing} policy ns/lemon has no annotation plimsoll.io/memory" in lines
    lemon["metadata"]["annotations"] = {"plimsoll.io/memory": "30d"}
    assert check(uses, lemon)[0] == 0


@pytest.mark.features("memory")
def test_score_of_another_namespace_that_is_not_public_is_a_warning(check):
    uses = policy(dontschedule=[SCORE | {"metricname": "violation_score_secret_lemon"}])
    lemon = policy("lemon", dontschedule=[RULE])
    lemon["metadata"] |= {"namespace": "secret", "annotations": {"plimsoll.io/memory": "30d"}}
    status, lines = check(uses, lemon)
    assert status == 0
    (warning,) = [line for line in lines if "no annotation plimsoll.io/score: public" in line]
    assert "warning: violation_score_secret_lemon: policy secret/lemon has" in warning
    lemon["metadata"]["annotations"]["plimsoll.io/score"] = "public"
    assert not [line for line in check(uses, lemon)[1] if "plimsoll.io/score" in line]


def test_misspelt_annotation_is_an_error_and_an_unknown_one_a_warning(check):
    given = policy(dontschedule=[RULE])
    given["metadata"]["annotations"] = {"plimsoll.io/enforcment": "observe"}
    given["metadata"]["labels"] = {"plimsoll.io/soon": "x"}
    status, lines = check(given)
    assert status == 1
    similar = "unknown, similar: plimsoll.io/enforcement: the policy is only observed"
    assert (
        f"  error: annotation plimsoll.io/enforcment is {similar} until that is corrected" in lines
    )
    soon = "label plimsoll.io/soon is unknown to this version and changes nothing"
    assert f"  warning: {soon}" in lines


def test_policy_label_that_no_pod_can_have_is_an_error_of_the_workload(check):
    template = {"metadata": {"labels": {"telemetry-policy": "x" * 64}}, "spec": {"containers": []}}
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    status, lines = check(workload | {"spec": {"template": template}})
    assert status == 1
    (error,) = [line for line in lines if "error: " in line]
    assert "spec.template.metadata.labels: telemetry-policy: " in error
    assert "at most 63" in error
