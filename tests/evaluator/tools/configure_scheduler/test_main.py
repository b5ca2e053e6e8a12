"""plimsoll configure-scheduler on a folder like that of a control plane node."""

import re
from pathlib import Path

import pytest
import yaml

from evaluator.main import main

URL = "https://10.96.0.10:9001/scheduler"


@pytest.fixture
def node(tmp_path, kubeadm):
    """The files of a control plane node, and a function that runs the command on them."""
    return Node(tmp_path, kubeadm)


class Node:
    def __init__(self, root, kubeadm):
        self.manifests, self.folder = root / "manifests", root / "plimsoll"
        self.manifest = self.manifests / "kube-scheduler.yaml"
        self.manifests.mkdir()
        self.folder.mkdir()
        for name in ("ca.crt", "tls.crt", "tls.key"):
            (self.folder / name).touch()
        self.manifest.write_text(kubeadm)
        self.manifest.chmod(0o600)

    def run(self, *flags, url=URL):
        where = (f"--manifest={self.manifest}", f"--folder={self.folder}")
        return main(["configure-scheduler", *where, *([f"--url={url}"] if url else []), *flags])

    def files(self):
        """Every file and its content."""
        roots = (self.manifests, self.folder)
        return {
            path: path.read_text()
            for root in roots
            for path in root.rglob("*")
            if path.is_file() and "backups" not in path.parts
        }

    def backups(self):
        return [path.read_text() for path in (self.folder / "backups").glob("*")]

    def configurations(self):
        found = self.folder.glob("kube-scheduler-*.yaml")
        return [yaml.safe_load(path.read_text()) for path in found]


def test_manifest_names_an_existing_configuration(node, kubeadm):
    assert node.run() == 0
    (made,) = node.configurations()
    (extender,) = made["extenders"]
    assert extender["urlPrefix"] == URL
    assert extender["tlsConfig"]["caFile"] == f"{node.folder}/ca.crt"
    (path,) = node.folder.glob("kube-scheduler-*.yaml")
    assert f"--config={path}" in node.manifest.read_text()
    assert node.manifest.stat().st_mode & 0o777 == 0o600
    assert node.backups() == [kubeadm]
    assert list(node.manifests.iterdir()) == [node.manifest], (
        "the kubelet starts every manifest in the folder"
    )


def test_second_run_changes_nothing_and_undo_restores_everything(node, capsys):
    before = node.files()
    assert node.run() == 0
    configured = node.files()
    capsys.readouterr()
    assert node.run() == 0
    assert capsys.readouterr().out == "nothing to do\n"
    assert node.files() == configured
    assert len(node.backups()) == 1
    assert node.run("--undo", url="") == 0
    assert node.files() == before
    assert node.run("--undo", url="") == 0


def test_new_url_changes_the_manifest_so_that_kube_scheduler_restarts(node, kubeadm):
    node.run()
    first = node.manifest.read_text()
    node.run(url="https://10.96.0.11:9001/scheduler")
    assert node.manifest.read_text() != first
    assert node.run("--undo", url="") == 0
    assert node.manifest.read_text() == kubeadm
    assert node.configurations() == []


def test_dry_run_shows_the_changes_and_writes_nothing(node, capsys):
    before = node.files()
    assert node.run("--dry-run") == 0
    said = capsys.readouterr().out
    assert f"+++ {node.manifest}\n" in said
    assert "\n+    - --config=" in said
    assert f"+- urlPrefix: {URL}\n" in said
    assert node.files() == before
    node.run()
    before = node.files()
    assert node.run("--undo", "--dry-run", url="") == 0
    assert "\n-    - --config=" in capsys.readouterr().out
    assert node.files() == before


@pytest.fixture
def theirs(node, kubeadm):
    """kube-scheduler's own configuration file, named by its manifest, with TAS as an extender."""
    path = node.manifests.parent / "theirs.yaml"
    path.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "parallelism: 7 # tuned\n"
        "extenders:\n"
        "- urlPrefix: https://tas-service.default.svc:9001\n"
        "  ignorable: true\n"
        "  managedResources: [{name: telemetry/scheduling}]\n"
        "- urlPrefix: http://other # of another team\n"
        "  weight: 4\n"
        "profiles:\n"
        "- schedulerName: mine # and its own\n"
    )
    text = kubeadm.replace("scheduler.conf\n      name", "s.yaml\n      name").replace(
        "path: /etc/kubernetes/scheduler.conf", f"path: {path}"
    )
    node.manifest.write_text(text.replace("--leader-elect=true", "--config=/etc/kubernetes/s.yaml"))
    return path


def test_existing_configuration_is_the_base_and_is_kept(node, theirs):
    manifest = node.manifest.read_text()
    assert node.run() == 0
    (made,) = node.configurations()
    assert made["parallelism"] == 7
    assert [one["urlPrefix"] for one in made["extenders"]] == ["http://other", URL]
    assert made["extenders"][-1]["ignorable"] is True
    assert "tas-service" in theirs.read_text()
    assert node.run("--undo", url="") == 0
    assert node.manifest.read_text() == manifest


def test_diff_is_against_the_file_that_kube_scheduler_reads(node, theirs, capsys):
    assert node.run("--dry-run") == 0
    out = capsys.readouterr().out
    assert "extender: ignorable: true is kept: pods are scheduled without their policies" in out
    assert f"--- {theirs}\n+++ {node.folder}/kube-scheduler-" in out
    removed = re.findall(r"^-(?!--)[- ]*(\w+)", out, re.MULTILINE)
    assert removed == ["urlPrefix", "ignorable", "managedResources"]
    assert " parallelism: 7 # tuned" in out
    assert " - urlPrefix: http://other # of another team" in out


def test_later_run_keeps_extenders_and_settings_added_to_our_file(node, capsys):
    assert node.run() == 0
    (ours,) = node.folder.glob("kube-scheduler-*.yaml")
    scorer = "- urlPrefix: https://10.96.0.10:9001/scorers/safe # added\n  ignorable: true\n"
    text = ours.read_text().replace("httpTimeout: 2s", "httpTimeout: 900ms")
    ours.write_text(text + scorer)
    capsys.readouterr()
    assert node.run(url="https://10.96.0.11:9001/scheduler") == 0
    assert "extender: httpTimeout: 900ms is kept\n" in capsys.readouterr().out
    name = re.findall(r"--config=(\S+)", node.manifest.read_text())[-1]
    text = Path(name).read_text()
    made = yaml.safe_load(text)
    assert [one["urlPrefix"] for one in made["extenders"]] == [
        "https://10.96.0.10:9001/scorers/safe",
        "https://10.96.0.11:9001/scheduler",
    ]
    assert made["extenders"][1]["httpTimeout"] == "900ms"
    assert text.count("# Written by") == 1
    assert "# added" in text


@pytest.mark.parametrize(
    ("spoil", "url", "says"),
    [
        (lambda node: node.manifest.unlink(), URL, "a kubeadm control plane node"),
        (lambda node: node.manifest.write_bytes(b"\xff"), URL, "is not text"),
        (lambda node: node.manifest.write_text("kind: Pod"), URL, "it has no spec"),
        (lambda node: (node.folder / "tls.key").unlink(), URL, "no .*tls.key"),
        (lambda node: None, "https://plimsoll-evaluator.plimsoll.svc:9001", "cluster IP"),
        (lambda node: None, "https://plimsoll-evaluator:9001/scheduler", "cluster IP"),
        (lambda node: None, "10.96.0.10:9001", "is not like https://"),
    ],
)
def test_impossible_change_is_reported_in_a_sentence(node, capsys, spoil, url, says):
    spoil(node)
    before = sorted(path for path in node.manifests.parent.rglob("*"))
    assert node.run(url=url) == 1
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    assert line.startswith("plimsoll configure-scheduler: ")
    assert line.endswith("; nothing was changed")
    assert re.search(says, line)
    assert sorted(path for path in node.manifests.parent.rglob("*")) == before


def test_folder_among_the_manifests_is_rejected(node, capsys):
    node.folder = node.manifests / "plimsoll"
    assert node.run() == 1
    assert "the kubelet would start the files there as pods" in capsys.readouterr().err


def test_missing_url_is_a_usage_error(node, capsys):
    with pytest.raises(SystemExit) as ended:
        node.run(url="")
    assert ended.value.code == 2
    assert "--url is missing" in capsys.readouterr().err


def test_failed_write_leaves_the_manifest_whole(node, kubeadm, capsys):
    (node.manifests / ".kube-scheduler.yaml.plimsoll").mkdir()
    assert node.run() == 1
    assert node.manifest.read_text() == kubeadm
    assert "Traceback" not in capsys.readouterr().err


def test_check_says_that_the_preempt_verb_is_missing(node, capsys):
    """And writes nothing; a rollback takes the verb out, and the next run puts it back."""
    assert node.run("--no-preempt") == 0
    (made,) = node.configurations()
    assert "preemptVerb" not in made["extenders"][0]
    before = node.files()
    capsys.readouterr()
    assert node.run("--check", url="") == 1
    assert f"{URL} has no preemptVerb" in capsys.readouterr().out
    assert node.files() == before
    assert node.run() == 0
    assert "preemptVerb: not set becomes preempt: otherwise" in capsys.readouterr().out
    assert node.run("--check", url="") == 0
    assert capsys.readouterr().out == ""
    assert node.run("--no-preempt") == 0
    assert "preemptVerb: preempt is removed: set by a flag" in capsys.readouterr().out
