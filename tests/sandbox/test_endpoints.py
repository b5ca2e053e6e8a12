"""What a running sandbox prints: addresses for programs, kubectl and users."""

import json
from pathlib import Path

import pytest
import yaml

from sandbox import manifests
from sandbox.endpoints import Endpoints, kubeconfig, table, write_atomically


@pytest.fixture
def endpoints():
    return Endpoints(
        api="http://127.0.0.1:1",
        extender="http://127.0.0.1:2",
        ops="http://127.0.0.1:3",
        agents="127.0.0.1:4",
        metrics={"node-a": "http://127.0.0.1:5/metrics"},
    )


def test_endpoints_json_is_flat(endpoints):
    assert json.loads(endpoints.as_json()) == {
        "api": "http://127.0.0.1:1",
        "extender": "http://127.0.0.1:2",
        "ops": "http://127.0.0.1:3",
        "agents": "127.0.0.1:4",
        "metrics/node-a": "http://127.0.0.1:5/metrics",
    }


def test_current_context_of_the_kubeconfig_names_the_server():
    config = yaml.safe_load(kubeconfig("http://127.0.0.1:1"))
    (context,) = [one for one in config["contexts"] if one["name"] == config["current-context"]]
    (cluster,) = [one for one in config["clusters"] if one["name"] == context["context"]["cluster"]]
    assert cluster["cluster"]["server"] == "http://127.0.0.1:1"
    assert context["context"]["user"] in {one["name"] for one in config["users"]}


def test_table_lists_endpoints_and_commands(endpoints):
    text = table(endpoints, Path("here"), Path("deploy"))
    for said in (
        "http://127.0.0.1:1",
        "http://127.0.0.1:2/scheduler",
        "http://127.0.0.1:3",
        "http://127.0.0.1:3/  ",
        "127.0.0.1:4",
        "http://127.0.0.1:5/metrics",
        "export KUBECONFIG=here/kubeconfig",
        "kubectl apply -f deploy/health-metric-demo/",
        "> here/node-a/node-metrics/text.prom",
    ):
        assert said in text
    assert "gang" not in text
    assert "needs --custom-metrics and openssl" in text


def test_table_with_custom_metrics_shows_how_to_get_them(endpoints):
    text = table(endpoints, Path("here"), Path("deploy"), custom_metrics=True)
    path = "/apis/custom.metrics.k8s.io/v1beta2/nodes/*/health_metric"
    assert f"kubectl get --raw '{path}'" in text


def test_table_with_gangs_shows_how_to_try_them(endpoints):
    text = table(endpoints, Path("here"), Path("deploy"), gangs=True)
    assert "kubectl apply -f deploy/gang-demo/" in text
    assert "curl 'http://127.0.0.1:3/explain?gang=gang-demo/later'" in text


def test_file_is_replaced_atomically(tmp_path):
    path = tmp_path / "endpoints.json"
    write_atomically(path, "a longer text")
    write_atomically(path, "short")
    assert path.read_text() == "short"
    assert list(tmp_path.iterdir()) == [path]


def test_crd_of_policies_is_found():
    assert [crd["metadata"]["name"] for crd in manifests.crds()] == [
        "taspolicies.telemetry.intel.com"
    ]


def test_folder_of_manifests_is_read_in_order(tmp_path):
    (tmp_path / "b.yaml").write_text("kind: B\n---\nkind: C\n---\n")
    (tmp_path / "a.yaml").write_text("# only a comment\n---\nkind: A\n")
    (tmp_path / "c.txt").write_text("kind: D\n")
    assert [one["kind"] for one in manifests.load(tmp_path)] == ["A", "B", "C"]
    assert [one["kind"] for one in manifests.load(tmp_path / "b.yaml")] == ["B", "C"]
