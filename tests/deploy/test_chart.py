"""The Helm chart renders the objects of the kustomizations, and each of its values has an effect."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from release import chart as generator
from release.values import tree
from tests.deploy.chart_values import BUNDLE, CHART, COMPONENTS, EVERYTHING, EXISTING, JOB

helm = pytest.importorskip("helm_python", reason="helm-python-sdk has no wheel here")


pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH")


def comparable(objects):
    """Without what a chart has otherwise: the namespace, hashes of rules, the CRD's keep policy."""
    text = json.dumps([one for key, one in sorted(objects.items()) if key[0] != "Namespace"])
    found = json.loads(re.sub(r"plimsoll-rules-[a-z0-9]{10}", "plimsoll-rules", text))
    for one in found:
        one["metadata"].get("annotations", {}).pop("helm.sh/resource-policy", None)
        if one["metadata"].get("annotations") == {}:
            del one["metadata"]["annotations"]
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def test_generated_files_are_up_to_date(capsys):
    assert (generator.main(["--check"]), capsys.readouterr().err) == (0, "")


def test_every_kustomization_is_in_the_chart_or_left_out_with_a_reason(folder):
    """A folder added later must be put into one of the lists of release/chart.py."""
    bases = {".", "core", "crd", "evaluator", "daemonset", "rules"}
    assert str(folder) in bases | generator.FOLDERS.keys() | generator.LEFT_OUT.keys()


def test_defaults_are_the_objects_of_the_kustomization(render):
    assert comparable(render({"monitoring": {"enabled": True}})) == comparable(generator.build("."))


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_is_that_of_the_kustomization(render, component):
    needed = {generator.NEEDS.get(component), generator.REQUIRES.get(component)} - {None}
    needs = {*needed, *generator.ON_FROM, component}
    on = {generator._camel(name): True for name in needs}
    expected = generator.build("core", *sorted(needs)) | generator.build("certificates")
    assert comparable(render({"components": on})) == comparable(expected)


def test_all_components_together(render):
    on = {generator._camel(name): True for name in COMPONENTS}
    expected = generator.build("core", *COMPONENTS) | generator.build("certificates")
    assert comparable(render({"components": on})) == comparable(expected)


def test_the_monitor_of_a_protected_port_uses_tls_and_a_token(render):
    names = ("ops-access", "ops-tls")
    on = {generator._camel(name): True for name in names}
    given = {"monitoring": {"enabled": True}, "components": on}
    assert comparable(render(given)) == comparable(generator.build(".", *names))


def test_guard_is_on_where_the_api_serves_it_and_can_be_turned_off(render):
    guard = {key for key in render() if key[0].startswith("ValidatingAdmissionPolicy")}
    assert ("ValidatingAdmissionPolicy", "plimsoll-evaluator") in guard
    assert not guard & render({"components": {"guard": False}}).keys()
    template = (CHART / "templates" / "components.yaml").read_text()
    served = '{{- if and .Values.components.guard (semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version) }}'
    assert template.count(served) == len(guard)


def test_network_policy_of_agents_is_on_and_can_be_turned_off(render):
    key = ("NetworkPolicy", "plimsoll-agent")
    assert key in render()
    assert key not in render({"agent": {"networkPolicy": {"enabled": False}}})


def test_ca_of_the_custom_metrics_api_is_a_value_without_cert_manager(render):
    objects = render({**EXISTING, **BUNDLE, "components": {"serveCustomMetrics": True}})
    for version in ("v1beta1", "v1beta2"):
        found = objects["APIService", f"{version}.custom.metrics.k8s.io"]
        assert found["spec"]["caBundle"] == "Q0E="
        assert not found["metadata"]["annotations"]


def test_source_custom_metrics_is_the_component(render):
    sources = {"agents": {"enabled": False}, "customMetrics": {"enabled": True}}
    expected = comparable(generator.build("core", "custom-metrics", *generator.ON_FROM))
    found = comparable(render({**EXISTING, "sources": sources}))
    agent = ("DaemonSet", "plimsoll-agent")  # without a source that reads it, it does not stream
    assert not [one for one in arguments(found, *agent) if one.startswith("--evaluator.")]
    assert {**found, agent: None} == {**expected, agent: None}


def test_role_binding_in_kube_system_can_be_left_out(render):
    values = {"components": {"serveCustomMetrics": True}}
    key = ("RoleBinding", "plimsoll-evaluator-auth-reader")
    assert render(values)[key]["metadata"]["namespace"] == "kube-system"
    assert key not in render({**values, "customMetrics": {"authReader": False}})


@pytest.mark.parametrize("name", [name for name, (path, _) in generator.FOLDERS.items() if path])
def test_other_folders_are_added_by_their_value(render, name):
    values = {**EXISTING, "components": {"gangs": True, "gangsWebhook": True}}
    top, leaf = generator.FOLDERS[name][0].split(".")
    plain = render(values)
    added = {k: v for k, v in render({**values, top: {leaf: True}}).items() if k not in plain}
    assert comparable(added) == comparable(generator.build(name))


def test_another_namespace_is_used_everywhere(render):
    values = {"components": {generator._camel(name): True for name in COMPONENTS}, **JOB, **BUNDLE}
    both = [json.dumps([*render(values, name).values()]) for name in ("plimsoll", "elsewhere")]
    here, there = (re.sub(r'"--agentServiceAccount=[^"]*", ', "", text) for text in both)
    assert there.count("elsewhere") > 20
    for of_ours in (".plimsoll.svc", ":plimsoll:", '"namespace": "plimsoll"', "plimsoll/plimsoll-"):
        assert of_ours in here or of_ours == "plimsoll/plimsoll-"
        assert of_ours not in there
    assert "--agentServiceAccount=elsewhere/plimsoll-agent" in both[1]


def arguments(objects, kind="Deployment", name="plimsoll-evaluator"):
    return objects[kind, name]["spec"]["template"]["spec"]["containers"][0]["args"]


def test_sources_are_listed_by_their_order(render):
    prometheus = {"enabled": True, "order": 1, "url": "http://p:9090", "queries": {"load": "node_load1"}}  # fmt: skip
    objects = render({"sources": {"prometheus": prometheus}})
    assert arguments(objects)[-3:] == [
        "--metricsSource=prometheus,agents",
        "--prometheusUrl=http://p:9090",
        "--prometheusQueries=/etc/plimsoll/queries/queries.yaml",
    ]
    data = objects["ConfigMap", "plimsoll-queries"]["data"]
    assert yaml.safe_load(data["queries.yaml"]) == {"load": "node_load1"}


def test_agents_can_be_installed_alone(render):
    """For metrics in place of node_exporter: nothing streams, and no part of the evaluator exists."""
    values = {"evaluator": {"enabled": False}, "monitoring": {"enabled": True}}
    objects = render({**values, "components": {"nodeExporter": True}})
    assert {kind for kind, _ in objects} == {
        *(
            "ConfigMap",
            "DaemonSet",
            "NetworkPolicy",
            "PodMonitor",
            "PriorityClass",
            "ServiceAccount",
        ),
    }
    assert not [name for _, name in objects if "evaluator" in name]
    pod = objects["DaemonSet", "plimsoll-agent"]["spec"]["template"]["spec"]
    assert "evaluator" not in json.dumps([pod["containers"][0]["args"], pod["volumes"]])
    assert {one["name"] for one in pod["containers"][0]["volumeMounts"]} == {
        one["name"] for one in pod["volumes"]
    }


def test_evaluator_can_be_installed_alone(render):
    prometheus = {"enabled": True, "url": "http://p:9090"}
    values = {"agent": {"enabled": False}, "sources": {"prometheus": prometheus}}
    objects = render({**values, "monitoring": {"enabled": True}})
    assert not [
        name for _, name in objects if name == "plimsoll-agent" or name.startswith("plimsoll-rules")
    ]
    assert "--metricsSource=prometheus" in arguments(objects)


def test_every_value_of_pods_has_its_effect(render):
    objects = render({**EVERYTHING, "components": {"guard": True, "evict": True}})
    for kind, program in (("DaemonSet", "agent"), ("Deployment", "evaluator")):
        given, template = (
            EVERYTHING[program],
            objects[kind, f"plimsoll-{program}"]["spec"]["template"],
        )
        pod = template["spec"]
        (container,) = pod["containers"]
        assert (container["image"], container["imagePullPolicy"]) == (f"r/{program}:v2", "Always")
        assert container["args"][-1] == "--log.level=debug"
        assert container["env"][-1] == given["extraEnv"][0]
        assert given["extraVolumes"][0] in pod["volumes"]
        assert given["extraVolumeMounts"][0] in container["volumeMounts"]
        assert container["resources"]["limits"] == {"memory": "2Gi"}
        assert container["securityContext"] == given["securityContext"]
        for field in ("tolerations", "affinity", "topologySpreadConstraints", "priorityClassName"):
            assert pod[field] == given[field]
        own = {"kubernetes.io/os": "linux"} if program == "agent" else {}
        assert pod["nodeSelector"] == own | given["nodeSelector"]
        assert pod["securityContext"] == given["podSecurityContext"]
        assert pod["serviceAccountName"] == f"my-{program}"
        assert template["metadata"]["labels"] | {"tier": "b", "team": "nodes"} == template["metadata"]["labels"]  # fmt: skip
        assert template["metadata"]["annotations"]["note"] == "a"
        account = objects["ServiceAccount", f"my-{program}"]
        assert account["metadata"]["annotations"] == {"role": "c"}
        assert ("PriorityClass", f"plimsoll-{program}") not in objects
    assert all(one["metadata"]["labels"]["team"] == "nodes" for one in objects.values())
    for (kind, _), one in objects.items():
        if kind.endswith("RoleBinding"):
            assert [subject["name"] for subject in one["subjects"]] == ["my-evaluator"]
    guard = json.dumps(objects["ValidatingAdmissionPolicy", "plimsoll-evaluator"])
    assert "system:serviceaccount:plimsoll:my-evaluator" in guard
    assert "--agentServiceAccount=plimsoll/my-agent" in arguments(objects)


def test_values_of_other_objects_have_their_effect(render):
    objects = render(EVERYTHING)
    budget = objects["PodDisruptionBudget", "plimsoll-evaluator"]["spec"]
    assert budget["maxUnavailable"] == "50%"
    issuers = [
        one["spec"]["issuerRef"] for (kind, _), one in objects.items() if kind == "Certificate"
    ]
    assert issuers == [EVERYTHING["certificates"]["issuerRef"]] * 3
    assert "Issuer" not in {kind for kind, _ in objects}
    pod = objects["DaemonSet", "plimsoll-agent"]["spec"]["template"]["spec"]
    assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert pod["containers"][0]["ports"][0]["containerPort"] == 9200
    assert "--web.listen-address=:9200" in pod["containers"][0]["args"]
    ingress = objects["NetworkPolicy", "plimsoll-agent"]["spec"]["ingress"][0]["from"]
    names = [one["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for one in ingress[:2]]  # fmt: skip
    assert (names, ingress[-1]) == (["metrics", "more"], {"ipBlock": {"cidr": "10.0.0.0/8"}})
    ingress = objects["NetworkPolicy", "plimsoll-evaluator"]["spec"]["ingress"]
    assert {"ipBlock": {"cidr": "10.0.0.0/8"}} in ingress[1]["from"]
    assert ingress[-1] == {"ports": [{"port": 8080}]}
    (peers,) = [rule["from"] for rule in ingress if rule["ports"] == [{"port": "ops"}]]
    blocks = [peer["ipBlock"]["cidr"] for peer in peers if "ipBlock" in peer]
    assert (peers[0]["namespaceSelector"], blocks) == (
        {"matchLabels": {"kubernetes.io/metadata.name": "metrics"}},
        ["10.9.0.0/16", "10.7.0.1/32", "fd00::/8"],
    )
    (container,) = objects["Deployment", "plimsoll-evaluator"]["spec"]["template"]["spec"]["containers"]  # fmt: skip
    assert "--pagesFrom=10.7.0.1/32,fd00::/8" in container["args"]
    for kind, name in (("PodMonitor", "plimsoll-agent"), ("PrometheusRule", "plimsoll")):
        metadata = objects[kind, name]["metadata"]
        assert (metadata["namespace"], metadata["labels"]["release"]) == (
            "monitoring",
            "prometheus",
        )
    monitor = objects["PodMonitor", "plimsoll-agent"]["spec"]
    assert monitor["namespaceSelector"] == {"matchNames": ["plimsoll"]}
    assert monitor["podMetricsEndpoints"][0]["interval"] == "30s"


def test_monitors_can_have_an_interval_shorter_than_prometheus_own_timeout(render):
    """The Prometheus operator ignores a monitor whose timeout is above its interval; Prometheus shortens its default."""
    monitors = [one for (kind, _), one in render({"monitoring": {"enabled": True, "interval": "5s"}}).items() if kind == "PodMonitor"]  # fmt: skip
    endpoints = [one for monitor in monitors for one in monitor["spec"]["podMetricsEndpoints"]]
    assert [one["interval"] for one in endpoints] == ["5s", "5s"]
    assert not [one for one in endpoints if "scrapeTimeout" in one]


def test_objects_can_be_left_to_others(render):
    off = {"create": False}
    objects = render(
        {
            "rbac": off,
            "agent": {"serviceAccount": {**off, "name": "a"}},
            "evaluator": {
                "serviceAccount": {**off, "name": "e"},
                "podDisruptionBudget": {"enabled": False},
                "networkPolicy": {"enabled": False},
            },
            "monitoring": {"enabled": True, "rules": False},
        }
    )
    kinds = {kind for kind, _ in objects}
    assert not {"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "PodDisruptionBudget", "ServiceAccount", "PrometheusRule"} & kinds  # fmt: skip
    assert ("NetworkPolicy", "plimsoll-evaluator") not in objects


@pytest.mark.parametrize("values", [{}, EVERYTHING])
def test_output_is_stable_and_asks_the_cluster_nothing(render, values):
    """For Argo CD and Flux, which compare what they render each time; `lookup` finds nothing there."""
    assert render(values) == render(values)
    texts = [file.read_text() for file in (CHART / "templates").iterdir()]
    for function in ("lookup", "randAlphaNum", "genCA", "genSelfSignedCert", "uuidv4"):
        assert not [text for text in texts if re.search(rf"\{{\{{[^}}]*\b{function} ", text)]


def test_rule_sets_are_a_map(render):
    """One can be left out, another added, without repeating the others."""
    own = "groups: []\n"
    plain = {**render()["ConfigMap", rules(render())]["data"]}
    changed = render({"rules": {"usage": {"enabled": False}, "own": {"enabled": True, "content": own}}})  # fmt: skip
    assert rules(changed) != rules(render())
    data = changed["ConfigMap", rules(changed)]["data"]
    del plain["usage.yaml"]
    assert data == {**plain, "own.yaml": own}


def rules(objects):
    (name,) = [name for kind, name in objects if name.startswith("plimsoll-rules-")]
    return name


def test_extra_flags_image_digest_and_resources(render):
    digest = "sha256:" + "0" * 64
    values = {
        "agent": {
            "extraArgs": ["--collector.ntp"],
            "image": {"registry": "", "repository": "r/a", "digest": digest},
        },
        "evaluator": {"replicas": 3, "resources": {"limits": {"memory": "3Gi"}}},
    }
    objects = render(values)
    assert arguments(objects, "DaemonSet", "plimsoll-agent")[-1] == "--collector.ntp"
    pod = objects["DaemonSet", "plimsoll-agent"]["spec"]["template"]["spec"]
    assert {one["image"] for one in (*pod["containers"], *pod["initContainers"])} == {f"r/a@{digest}"}  # fmt: skip
    spec = objects["Deployment", "plimsoll-evaluator"]["spec"]
    assert spec["replicas"] == 3
    assert spec["template"]["spec"]["containers"][0]["resources"]["limits"] == {"memory": "3Gi"}


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"evaluators": {}}, "evaluators"),
        ({"evaluator": {"replicas": 0}}, "replicas"),
        ({"evaluator": {"extraArgs": ["evict"]}}, "extraArgs"),
        ({"components": {"evictions": True}}, "evictions"),
        ({"certificates": {"mode": "helm"}}, "mode"),
        ({"components": {"gangsWebhook": True}}, "needs components.gangs"),
        ({"components": {"serveCustomMetrics": True}, **JOB}, "set customMetrics.caBundle"),
        ({"components": {"prometheusEgress": True}}, "needs components.closedEgress"),
        ({"components": {"opsAccess": True}}, "components.opsAccess needs components.opsTls"),
        ({"sources": {"agents": {"enabled": False}}}, "enable at least one"),
        ({"sources": {"prometheus": {"enabled": True}}}, "sources.prometheus.url: required"),
        ({"balance": {"enforcement": "off"}}, "enforcement"),
        ({"rules": {"mine": {"enabled": True}}}, "rules.mine: no rules of this name"),
    ],
)
def test_wrong_values_are_rejected_by_name(chart, values, named):
    with pytest.raises(helm.HelmError, match=named):
        chart.render(values=values, name="plimsoll", namespace="plimsoll")


def test_chart_has_no_findings_of_helm_lint():
    report = helm.lint(CHART, {}, strict=True, namespace="plimsoll")
    messages = [one for one in report["messages"] if "icon is recommended" not in str(one)]
    assert (messages, report["errors"]) == ([], [])


def test_schema_describes_every_value(chart):
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert keys(schema["properties"]) - {"global"} == set(chart.values)
    for path in (".image.repository", ".replicas"):
        assert f"evaluator{path}`" in (CHART / "README.md").read_text()


def keys(properties):
    return set(properties)


def test_crd_is_kept_on_uninstall(render):
    key = ("CustomResourceDefinition", "taspolicies.telemetry.intel.com")
    assert render()[key]["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    removed = render({"crds": {"keep": False}})[key]
    assert "helm.sh/resource-policy" not in removed["metadata"].get("annotations", {})
    assert key not in render({"crds": {"install": False}})


def test_package_contains_the_rules(tmp_path):
    archive = helm.package(CHART, destination=tmp_path)
    assert Path(str(archive)).name == f"plimsoll-{generator.VERSION}.tgz"
    with helm.Chart.load(archive) as packed:
        names = {one["name"] for one in packed.files}
    assert {"rules/health.yaml", "files/certificates.py", "README.md"} <= names


def test_values_are_nested_by_their_path():
    values = [generator.Value("a.b", 1, {}, ""), generator.Value("a.c", 2, {}, "")]
    assert tree(values) == {"a": {"b": 1, "c": 2}}


def test_notes_say_how_the_service_proxy_reads_pages(chart):
    """On a cluster with its addresses, which `helm template` does not look up."""
    notes = chart.render(values={}, name="mine", namespace="x")["plimsoll/templates/NOTES.txt"]
    assert "helm upgrade mine ... --reuse-values --set 'evaluator.pagesFrom={ADDRESS/32}'" in notes


def test_namespaces_and_port_of_prometheus_are_values(render):
    components = {"closedMetrics": True, "closedEgress": True, "prometheusEgress": True}
    values = {
        "components": components,
        "agent": {"networkPolicy": {"namespaces": ["observability"]}},
        "evaluator": {"networkPolicy": {"namespaces": ["observability"]}},
        "sources": {"prometheus": {"namespace": "observability", "port": 9091}},
    }
    objects = render(values)
    policies = [one for (kind, _), one in objects.items() if kind == "NetworkPolicy"]
    assert "monitoring" not in json.dumps(policies)
    egress = objects["NetworkPolicy", "plimsoll-evaluator-egress"]["spec"]["egress"][-1]
    assert egress["ports"] == [{"port": 9091}]
    assert "observability" in json.dumps(egress["to"])


@pytest.mark.parametrize("closed", [False, True])
def test_without_namespaces_only_the_given_peers_scrape(render, closed):
    policy = {"namespaces": [], "from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}
    values = {name: {"networkPolicy": policy} for name in ("agent", "evaluator")}
    objects = render({**values, "components": {"closedMetrics": closed}})
    for name, port in (("agent", "metrics"), ("evaluator", "ops")):
        rules = objects["NetworkPolicy", f"plimsoll-{name}"]["spec"]["ingress"]
        (peers,) = [rule["from"] for rule in rules if rule["ports"] == [{"port": port}]]
        labelled = [peer for peer in peers if "podSelector" in peer]
        assert (len(labelled), peers[-1]) == (0 if closed else 1, policy["from"][0])
