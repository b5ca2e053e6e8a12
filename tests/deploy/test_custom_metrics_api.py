"""The component that serves the custom metrics API: what must agree among its objects, and its rights."""

import pytest

NAME = "plimsoll-evaluator"
ACCOUNT = {"kind": "ServiceAccount", "name": NAME, "namespace": "plimsoll"}


@pytest.fixture
def objects(built):
    """Objects of the example by kind and name."""
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in built("custom-metrics-api")}


def test_both_versions_name_the_service_and_port_of_the_evaluator(objects):
    (container,) = objects["Deployment", NAME]["spec"]["template"]["spec"]["containers"]
    (listening,) = [port for port in container["ports"] if port["name"] == "custom-metrics"]
    (given,) = [one for one in container["args"] if one.startswith("--customMetricsPort=")]
    assert given == f"--customMetricsPort={listening['containerPort']}"
    (port,) = [
        p for p in objects["Service", NAME]["spec"]["ports"] if p["name"] == "custom-metrics"
    ]
    assert port["targetPort"] == listening["name"]
    ingress = objects["NetworkPolicy", NAME]["spec"]["ingress"]
    assert {"ports": [{"port": listening["name"]}]} in ingress
    for version in ("v1beta1", "v1beta2"):
        spec = objects["APIService", f"{version}.custom.metrics.k8s.io"]["spec"]
        assert spec["service"] == {"namespace": "plimsoll", "name": NAME, "port": port["port"]}
        assert spec["version"] == version
        assert "insecureSkipTLSVerify" not in spec


def test_certificate_of_the_apiservice_names_its_service(objects):
    """kube-aggregator verifies the name <service>.<namespace>.svc."""
    spec = objects["APIService", "v1beta2.custom.metrics.k8s.io"]
    inject = spec["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
    namespace, _, name = inject.partition("/")
    certificate = objects["Certificate", name]
    assert certificate["metadata"]["namespace"] == namespace
    assert f"{NAME}.plimsoll.svc" in certificate["spec"]["dnsNames"]
    volumes = objects["Deployment", NAME]["spec"]["template"]["spec"]["volumes"]
    mounted = {one["secret"]["secretName"]: one["name"] for one in volumes if "secret" in one}
    assert mounted[certificate["spec"]["secretName"]] == "extender-tls"


def test_two_replicas_and_a_budget_keep_the_api_available(objects):
    assert objects["Deployment", NAME]["spec"]["replicas"] == 2
    assert objects["Deployment", NAME]["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert objects["PodDisruptionBudget", NAME]["spec"]["maxUnavailable"] == 1


def test_evaluator_may_ask_about_users_and_read_the_front_proxys_ca(objects):
    delegator = objects["ClusterRoleBinding", "plimsoll-evaluator-auth-delegator"]
    assert delegator["roleRef"]["name"] == "system:auth-delegator"
    assert delegator["subjects"] == [ACCOUNT]
    reader = objects["RoleBinding", "plimsoll-evaluator-auth-reader"]
    assert reader["metadata"]["namespace"] == "kube-system"
    assert reader["roleRef"]["name"] == "extension-apiserver-authentication-reader"
    assert reader["subjects"] == [ACCOUNT]


def test_nobody_is_bound_to_the_readers_role(objects):
    (rule,) = objects["ClusterRole", "plimsoll-custom-metrics-reader"]["rules"]
    assert rule["apiGroups"] == ["custom.metrics.k8s.io"]
    bound = [obj for key, obj in objects.items() if key[0].endswith("Binding")]
    assert "plimsoll-custom-metrics-reader" not in [obj["roleRef"]["name"] for obj in bound]
