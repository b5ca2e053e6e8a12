"""plimsoll check on configurations of kube-scheduler."""

import json

import pytest
import yaml

from evaluator.tools.check import main

LACKS = "https://10.0.0.1:9001/scheduler has no preemptVerb: "


def configuration(api_version="kubescheduler.config.k8s.io/v1", **fields):
    """A configuration with the evaluator as an extender."""
    entry = {
        "urlPrefix": "https://10.0.0.1:9001/scheduler",
        "filterVerb": "filter",
        "managedResources": [{"name": "telemetry/scheduling"}],
    }
    kind = {"apiVersion": api_version, "kind": "KubeSchedulerConfiguration"}
    return kind | {"extenders": [entry | fields]}


def config_map(text):
    meta = {"name": "my-scheduler", "namespace": "kube-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a.yaml": text}}


@pytest.fixture
def check(tmp_path, capsys):
    """The exit status, and the findings in an object."""

    def run(obj, *flags):
        (tmp_path / "given.yaml").write_text(yaml.safe_dump(obj))
        status = main.main([str(tmp_path / "given.yaml"), "--output=json", *flags])
        return status, json.loads(capsys.readouterr().out)["findings"]

    return run


@pytest.mark.parametrize(
    "wrap", [dict, lambda obj: config_map(yaml.safe_dump(obj))], ids=["file", "ConfigMap"]
)
def test_configuration_without_preempt_verb_is_a_warning(check, wrap):
    status, (found,) = check(wrap(configuration()))
    (warning,) = found["warnings"]
    assert (status, warning.startswith(LACKS)) == (0, True)
    assert "plimsoll configure-scheduler" in warning
    assert check(wrap(configuration()), "--strict")[0] == 1
    status, (found,) = check(wrap(configuration(preemptVerb="preempt")), "--strict")
    assert (status, found["warnings"]) == (0, [])


def test_configuration_of_an_old_version_is_an_error(check):
    status, (found,) = check(configuration("kubescheduler.config.k8s.io/v1beta3"))
    assert status == 1
    assert found["errors"] == [
        "its apiVersion is 'kubescheduler.config.k8s.io/v1beta3', not kubescheduler.config.k8s.io/v1, which kube-scheduler "
        "supports since 1.25"
    ]


def test_configuration_is_named_in_the_report_as_text(tmp_path, capsys):
    (tmp_path / "given.yaml").write_text(yaml.safe_dump(configuration()))
    assert main.main([str(tmp_path / "given.yaml")]) == 0
    title, warning, totals = capsys.readouterr().out.splitlines()
    assert title.endswith("given.yaml: KubeSchedulerConfiguration")
    assert warning.startswith(f"  warning: {LACKS}")
    assert totals == "0 policies, 0 errors, 1 warning"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a: b: c",
        "kind: KubeSchedulerConfiguration\n\t-",
        "[" * 5000 + "KubeSchedulerConfiguration",
    ],
)
def test_other_config_maps_are_skipped(check, text):
    status, (found,) = check(config_map(text))
    assert status == 1
    assert found["errors"] == ["no TASPolicy found, and no pod that names one"]


@pytest.mark.parametrize(
    "extenders", [3, [3], [{"filterVerb": "filter", "managedResources": 7}], {"a": "b"}]
)
def test_malformed_extenders_are_no_traceback(check, extenders):
    assert check(configuration() | {"extenders": extenders})[0] in {0, 1}
