"""From Telemetry Aware Scheduling's own manifests to Plimsoll on a real API server: policies and pods stay as they are."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from evaluator.main import main
from sandbox.envtest import find
from tests.evaluator.tools.configure_scheduler.conftest import KUBEADM

ROOT = Path(__file__).parents[2]
TAS = Path(__file__).parent / "tas"
CRD = "crd/taspolicies.telemetry.intel.com"
REPLACE = "kubectl apply --server-side --force-conflicts -k deploy/crd"
KEPT = ("taspolicy/scheduling-policy", "pod/app")

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def administrator(control_plane):
    def kubectl(*given, status=0):
        environment = {**os.environ, "KUBECONFIG": str(control_plane.kubeconfig)}
        done = subprocess.run(["kubectl", *given], env=environment, cwd=ROOT, capture_output=True, text=True)  # fmt: skip
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    return kubectl


def read(kubectl, what, namespace="default"):
    found = json.loads(kubectl("-n", namespace, "get", what, "-o", "json"))
    found["metadata"].pop("managedFields", None)
    return found


@pytest.fixture(scope="module")
def tas(administrator):
    """A cluster with TAS's CRD, a policy with all strategies, a pod that follows it, and the descheduler's policy."""
    kubectl = administrator
    kubectl("create", "serviceaccount", "default", "-n", "default")
    for file in ("crd.yaml", "objects.yaml"):
        kubectl("apply", "--validate=ignore", "-f", str(TAS / file))
        kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    return kubectl


@pytest.fixture(scope="module")
def migrated(tas):
    """The same cluster after the documented command; and what its objects were before."""
    assert REPLACE in (ROOT / "docs" / "switching-from-tas.md").read_text()
    names = [*KEPT, "configmap/descheduler-policy-configmap"]
    spaces = ["default", "default", "kube-system"]
    before = {name: read(tas, name, space) for name, space in zip(names, spaces, strict=True)}
    tas(*REPLACE.split()[1:4], "--validate=ignore", *REPLACE.split()[4:])
    tas("apply", "--server-side", "--validate=ignore", "-k", "deploy/core")
    return tas, before


def test_policies_and_pods_are_untouched_by_the_new_crd(migrated):
    kubectl, before = migrated
    for name in KEPT:
        assert read(kubectl, name) == before[name]


def test_descheduler_policy_is_untouched(migrated):
    kubectl, before = migrated
    name = "configmap/descheduler-policy-configmap"
    assert read(kubectl, name, "kube-system") == before[name]


def test_descheduler_policy_evicts_what_ours_evicts(migrated):
    """Both by the node affinity against `<policy>=violating`, which the evaluator sets too."""
    _, before = migrated
    theirs = yaml.safe_load(before["configmap/descheduler-policy-configmap"]["data"]["policy.yaml"])
    ours = yaml.safe_load((ROOT / "deploy/descheduler/v1alpha1/policy.yaml").read_text())
    strategy = "RemovePodsViolatingNodeAffinity"
    kind = {"nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"]}
    assert theirs["strategies"][strategy]["params"] == kind
    assert ours["strategies"][strategy]["params"].items() >= kind.items()


def test_new_crd_has_a_status_that_writing_does_not_change_the_policy(migrated):
    kubectl, before = migrated
    patch = '{"status": {"compliance": "Violated"}}'
    kubectl("patch", KEPT[0], "--subresource=status", "--type=merge", "-p", patch)
    after = read(kubectl, KEPT[0])
    assert after["status"] == {"compliance": "Violated"}
    assert (after["spec"], after["metadata"]["generation"]) == (
        before[KEPT[0]]["spec"],
        before[KEPT[0]]["metadata"]["generation"],
    )


def test_policy_of_tas_can_still_be_applied_unchanged(migrated):
    kubectl, _ = migrated
    assert "scheduling-policy unchanged" in kubectl("apply", "--validate=ignore", "-f", str(TAS / "objects.yaml"))  # fmt: skip


def test_check_accepts_the_policy_and_its_pod(capsys, tmp_path):
    """`check` reports what TAS did not: a ratio above 1 never occurs."""
    file = tmp_path / "policy.yaml"
    objects = list(yaml.safe_load_all((TAS / "objects.yaml").read_text()))
    file.write_text(yaml.safe_dump_all(objects[:2]))
    main(["check", str(file)])
    out = capsys.readouterr().out
    assert "memory_used_ratio" in out
    assert not re.search(r"\berror\b", out)


@pytest.fixture
def configured(tmp_path, capsys):
    """Run configure-scheduler where kube-scheduler has TAS's configuration; return the new one and the output."""
    manifests, folder = tmp_path / "manifests", tmp_path / "plimsoll"
    for made in (manifests, folder):
        made.mkdir()
    for name in ("ca.crt", "tls.crt", "tls.key"):
        (folder / name).touch()
    theirs = tmp_path / "tas.yaml"
    theirs.write_text((TAS / "scheduler.yaml").read_text())
    text = KUBEADM.replace("--leader-elect=true", f"--leader-elect=true\n    - --config={theirs}")
    text = text.replace("path: /etc/kubernetes/scheduler.conf\n      type", f"path: {theirs}\n      type")  # fmt: skip
    text = text.replace("mountPath: /etc/kubernetes/scheduler.conf", f"mountPath: {theirs}")
    (manifests / "kube-scheduler.yaml").write_text(text)
    where = (f"--manifest={manifests / 'kube-scheduler.yaml'}", f"--folder={folder}")

    def run():
        status = main(["configure-scheduler", *where, "--url=https://10.96.0.10:9001/scheduler"])
        printed = capsys.readouterr()
        assert status == 0, printed.err
        (made,) = folder.glob("kube-scheduler-*.yaml")
        return made, printed.out + printed.err

    return run


def test_ignorable_of_tas_is_kept_and_announced(configured):
    made, printed = configured()
    (extender,) = yaml.safe_load(made.read_text())["extenders"]
    assert (extender["ignorable"], extender["nodeCacheCapable"]) == (True, True)
    assert "ignorable: true is kept" in printed


def test_kube_scheduler_accepts_the_new_configuration(configured, control_plane, tmp_path):
    """The real program loads it and writes it out with all defaults."""
    scheduler = find(os.environ).scheduler
    if scheduler is None:
        pytest.skip("no kube-scheduler in $KUBEBUILDER_ASSETS")
    made, _ = configured()
    config = tmp_path / "config.yaml"
    text = made.read_text().replace("/etc/kubernetes/scheduler.conf", str(control_plane.kubeconfig))
    config.write_text(text)
    written = tmp_path / "written.yaml"
    command = [scheduler, f"--config={config}", f"--write-config-to={written}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert written.exists(), done.stderr
    (extender,) = yaml.safe_load(written.read_text())["extenders"]
    assert extender["managedResources"] == [{"name": "telemetry/scheduling", "ignoredByScheduler": True}]  # fmt: skip
