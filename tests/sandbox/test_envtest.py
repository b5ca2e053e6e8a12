"""Finding and starting a real control plane, and the errors if it is missing or fails."""

import shutil

import pytest

from sandbox.envtest import Binaries, ControlPlane, ControlPlaneError, NoControlPlaneError, find


@pytest.fixture
def assets(tmp_path):
    """A folder of programs that exit at once."""
    folder = tmp_path / "assets"
    folder.mkdir()

    def add(*names):
        for name in names:
            path = folder / name
            path.write_text(f"#!/bin/sh\necho {name} has no idea what $1 is\nexit 3\n")
            path.chmod(0o755)
        return {"KUBEBUILDER_ASSETS": str(folder)}

    return add


def test_missing_binary_is_named_with_its_folder(assets, tmp_path):
    with pytest.raises(NoControlPlaneError, match=f"no kube-apiserver.*{tmp_path}/assets"):
        find(assets("etcd"))


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not on PATH")
def test_scheduler_is_optional(assets):
    assert find(assets("etcd", "kube-apiserver")).scheduler is None
    found = find(assets("kube-scheduler"))
    assert all(path and "assets" in path for path in (found.etcd, found.apiserver, found.scheduler))
    assert found.controllers is None


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not on PATH")
def test_program_that_exits_is_an_error_with_its_last_lines(assets, tmp_path):
    binaries = find(assets("etcd", "kube-apiserver"))
    with (
        pytest.raises(ControlPlaneError, match=r"kube-apiserver ended with 3; its log:\n.*no idea"),
        ControlPlane(binaries, tmp_path / "state"),
    ):
        pass


def test_missing_scheduler_cannot_be_started(tmp_path):
    plane = ControlPlane(Binaries("etcd", "kube-apiserver", None), tmp_path)
    with pytest.raises(NoControlPlaneError, match="no kube-scheduler"):
        plane.scheduler(tmp_path / "config").__enter__()
    with pytest.raises(NoControlPlaneError, match="no kube-controller-manager"):
        plane.controllers("job-controller").__enter__()
    plane.close()
