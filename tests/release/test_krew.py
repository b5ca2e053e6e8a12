"""The krew plugin, installed from a local index as krew does: unpacked, linked as kubectl-plimsoll, run by kubectl."""

import hashlib
import os
import re
import shutil
import subprocess

import pytest
import yaml

from plimsoll import VERSION
from release import krew


@pytest.fixture
def index(tmp_path):
    assert krew.main([f"file://{tmp_path}/released", str(tmp_path / "released")]) == 0
    return tmp_path


def test_the_manifest_names_the_archive_for_each_platform(index):
    manifest = yaml.safe_load((index / "released/plimsoll.yaml").read_text())
    spec = manifest["spec"]
    assert manifest["kind"] == "Plugin"
    assert re.fullmatch(r"[a-z][a-z0-9-]*", manifest["metadata"]["name"])
    assert spec["version"] == f"v{VERSION}"
    assert len(spec["shortDescription"]) <= 50
    content = (index / "released/kubectl-plimsoll.tar.gz").read_bytes()
    found = {tuple(sorted(one["selector"]["matchLabels"].values())) for one in spec["platforms"]}
    assert len(found) == len(krew.PLATFORMS)
    assert {one["sha256"] for one in spec["platforms"]} == {hashlib.sha256(content).hexdigest()}
    assert content == krew.archive(), "built twice it is the same"
    assert "homepage" not in spec, "the folder is in no repository"


def test_the_homepage_is_the_repository_that_releases_the_archive():
    url = "https://github.com/someone/some-fork/releases/download/v0.1.0"
    assert yaml.safe_load(krew.manifest(url, b""))["spec"]["homepage"] == "https://github.com/someone/some-fork"  # fmt: skip


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH")
def test_kubectl_runs_the_plugin_from_the_index_without_its_package(index):
    (platform,) = {
        (one["uri"], one["bin"])
        for one in yaml.safe_load((index / "released/plimsoll.yaml").read_text())["spec"][
            "platforms"
        ]
    }
    (index / "store").mkdir()
    archive = platform[0].removeprefix("file://")
    subprocess.run(["tar", "-xzf", archive, "-C", index / "store"], check=True)
    (index / "bin").mkdir()
    (index / "bin/kubectl-plimsoll").symlink_to(index / "store" / platform[1])
    python = index / "python"  # without site-packages
    python.mkdir()
    (python / "python3").write_text(f'#!/bin/sh\nexec {shutil.which("python3")} -S "$@"\n')
    (python / "python3").chmod(0o755)
    environment = {"PATH": f"{python}:{index}/bin:/usr/bin:/bin", "HOME": str(index)}

    def kubectl(*given):
        return subprocess.run(["kubectl", "plimsoll", *given], env=environment, cwd=index, capture_output=True, text=True)  # fmt: skip

    shown = kubectl("--version")
    assert (shown.returncode, shown.stdout) == (0, f"kubectl plimsoll {VERSION}\n")
    assert "explain pod NAME" in kubectl("--help").stdout
    unreachable = kubectl("status", "--kubeconfig", os.devnull)
    assert unreachable.returncode == 2
    assert unreachable.stderr.startswith("kubectl plimsoll: ")
