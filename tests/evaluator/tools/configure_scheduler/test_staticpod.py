"""Editing a manifest as text: additions, exact undo, and rejected manifests."""

import pytest
import yaml

from evaluator.tools.configure_scheduler import staticpod
from evaluator.tools.configure_scheduler.staticpod import ManifestError

FOLDER = "/etc/kubernetes/plimsoll"
CONFIG = f"{FOLDER}/kube-scheduler-0123456789.yaml"


def styled(text, *replacements):
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    return text


STYLES = {
    "kubeadm's": [],
    "with comments": [
        (
            "    - --leader-elect=true\n",
            "    - --leader-elect=true # one of three\n    # and more\n",
        ),
        ("  volumes:\n", "  # what it reads\n  volumes:\n\n  # first\n"),
    ],
    "indented": [
        ("    - k", "      - k"),
        ("    - --", "      - --"),
        ("  - hostPath:\n      path", "    - hostPath:\n        path"),
        ("      type: File", "        type: File"),
        ("    name: kubeconfig\nstatus", "      name: kubeconfig\nstatus"),
    ],
    "quoted": [("- --leader-elect=true", "- '--leader-elect=true'")],
    "of JSON's brackets elsewhere": [
        (
            "  labels:\n    component: kube-scheduler\n    tier: control-plane\n",
            "  labels: {a: b}\n",
        )
    ],
    "command last": [("    image: kube-scheduler:v1.36.2\n", "")],
    "with another configuration": [
        ("    - --leader-elect=true\n", "    - --config=/etc/kubernetes/mine.yaml\n")
    ],
}


@pytest.mark.parametrize("style", STYLES)
def test_mount_is_added_and_removed(kubeadm, style):
    text = styled(kubeadm, *STYLES[style])
    new = staticpod.configured(text, FOLDER, CONFIG)
    assert staticpod.flags(new)["config"] == CONFIG
    assert staticpod.host_path(new, CONFIG) == CONFIG
    before, after = yaml.safe_load(text), yaml.safe_load(new)
    container = after["spec"]["containers"][0]
    assert container["command"].pop() == f"--config={CONFIG}"
    mount = {"mountPath": FOLDER, "name": "plimsoll", "readOnly": True}
    assert container["volumeMounts"].pop(0) == mount
    volume = {"name": "plimsoll", "hostPath": {"path": FOLDER, "type": "Directory"}}
    assert after["spec"]["volumes"].pop(0) == volume
    assert after == before
    assert set(text.splitlines()) <= set(new.splitlines())

    assert staticpod.configured(new, FOLDER, CONFIG) == new
    other = staticpod.configured(new, FOLDER, f"{FOLDER}/kube-scheduler-9876543210.yaml")
    assert staticpod.restored(other, FOLDER) == text
    assert staticpod.restored(text, FOLDER) == text


def test_later_edits_survive_the_undo(kubeadm):
    new = staticpod.configured(kubeadm, FOLDER, CONFIG)
    edit = ("v1.36.2", "v1.36.3")
    assert staticpod.restored(styled(new, edit), FOLDER) == styled(kubeadm, edit)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("kind: Pod", "kind: Deployment"), "not a Pod"),
        (("status: {}", "---\nkind: Pod"), "not one YAML document"),
        (("status: {}", "status: ["), "not one YAML document"),
        (("    - kube-scheduler\n", "    - sh\n"), "not kube-scheduler and its flags"),
        (("- --leader-elect=true", "- --leader-elect\n    - true"), "is not --flag=value"),
        (("    image:", "    args: [--v=2]\n    image:"), "not kube-scheduler and its flags"),
        (("    image:", "  - command: [x]\n    image:"), "2 containers"),
        (("  volumes:\n", "  tolerations:\n"), "no list of volumes"),
        (("    name: kubeconfig\nstatus", "    name: plimsoll\nstatus"), "not /etc/kubernetes/pli"),
        (("status: {}\n", "status: {}"), "its last line has no newline"),
    ],
)
def test_unsupported_manifest_is_rejected(kubeadm, change, says):
    with pytest.raises(ManifestError, match=says):
        staticpod.configured(styled(kubeadm, change), FOLDER, CONFIG)


def test_flow_style_lists_are_rejected(kubeadm):
    lines = [line for line in kubeadm.splitlines(keepends=True) if "    - --" not in line]
    text = styled(
        "".join(lines), ("  - command:\n    - kube-scheduler\n", "  - command: [kube-scheduler]\n")
    )
    with pytest.raises(ManifestError, match="command must be in block style"):
        staticpod.configured(text, FOLDER, CONFIG)


def test_service_names_are_detected_without_host_network(kubeadm):
    assert not staticpod.sees_services(kubeadm)
    assert staticpod.sees_services(styled(kubeadm, ("hostNetwork: true", "hostNetwork: false")))
    dns = ("hostNetwork: true", "hostNetwork: true\n  dnsPolicy: ClusterFirstWithHostNet")
    assert staticpod.sees_services(styled(kubeadm, dns))
