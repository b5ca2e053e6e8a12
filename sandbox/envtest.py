"""A real control plane on this machine: etcd, kube-apiserver, kube-scheduler and controllers, from local binaries.

For tests and benchmarks that also run against Kubernetes. The binaries are found
as controller-runtime's envtest finds them: in the folder $KUBEBUILDER_ASSETS, else in /usr/local/kubebuilder/bin.
"""

import contextlib
import http.client
import os
import secrets
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox import pdeathsig
from sandbox.endpoints import kubeconfig, write_atomically
from sandbox.pki import CertificateAuthority, KeyPair, available, openssl
from sandbox.processes import HeldPort, descendants, end, loopback_environment

_DEFAULT_FOLDER = "/usr/local/kubebuilder/bin"
_PATIENCE = 90.0
_LAST_LINES = 15


class NoControlPlaneError(Exception):
    """Binaries are missing; the text names them and the folders that were searched."""


class ControlPlaneError(Exception):
    """A component did not start; the text ends with its log."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """Paths of the binaries. kube-scheduler and kube-controller-manager are optional."""

    etcd: str
    apiserver: str
    scheduler: str | None
    controllers: str | None = None


def find(environment: Mapping[str, str]) -> Binaries:
    """Return the binaries on this machine; etcd may be on PATH, as Debian installs it. Raises NoControlPlaneError."""
    folder = environment.get("KUBEBUILDER_ASSETS") or _DEFAULT_FOLDER
    apiserver = shutil.which("kube-apiserver", path=folder)
    etcd = shutil.which("etcd", path=folder) or shutil.which("etcd")
    missing = [
        name for name, at in (("kube-apiserver", apiserver), ("etcd", etcd)) if at is None
    ] + ([] if available() else ["openssl"])
    if apiserver is None or etcd is None or missing:
        raise NoControlPlaneError(
            f"no {' and no '.join(missing)}: looked in {folder} ($KUBEBUILDER_ASSETS)"
        )
    return Binaries(
        etcd,
        apiserver,
        shutil.which("kube-scheduler", path=folder),
        shutil.which("kube-controller-manager", path=folder),
    )


class ControlPlane:
    """etcd and kube-apiserver with RBAC and one administrator, as a context manager. Its state is a folder of your own.

    Blocking, and for one thread: the programs die with the one that entered it.
    """

    def __init__(self, binaries: Binaries, folder: Path, *flags: str) -> None:
        """`flags`: more flags of kube-apiserver."""
        self.token = secrets.token_urlsafe(16)
        self._binaries = binaries
        self._dir = folder
        self._flags = flags
        self._ports = contextlib.ExitStack()
        self._programs = contextlib.ExitStack()
        self._apiserver = contextlib.ExitStack()
        self._accounts_key = folder / "accounts.key"
        self._front_proxy = [folder / f"front-proxy-{name}" for name in ("ca.crt", "crt", "key")]
        self._etcd, self._peer, self._api = (self._hold() for _ in range(3))
        self.url = f"https://127.0.0.1:{self._api}"
        self.ca = folder / "certs" / "apiserver.crt"
        self.kubeconfig = folder / "kubeconfig"

    def _hold(self) -> int:
        port = HeldPort()
        self._ports.callback(port.close)
        return port.number

    def __enter__(self) -> "ControlPlane":
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop all components and release the ports."""
        self._programs.close()
        self._ports.close()

    def _start(self) -> None:
        self._dir.mkdir(parents=True, exist_ok=True)
        self._programs.enter_context(self._running("etcd", self._etcd_command()))
        openssl("genpkey", "-algorithm", "RSA", "-out", str(self._accounts_key))
        self.rotate_front_proxy("front-proxy-ca")
        (self._dir / "tokens.csv").write_text(f"{self.token},admin,admin,system:masters\n")
        self._programs.push(self._apiserver)
        self._serve()
        text = kubeconfig(self.url, token=self.token, ca=self.ca)
        write_atomically(self.kubeconfig, text)

    def rotate_front_proxy(self, name: str) -> KeyPair:
        """Give the front proxy a certificate of a new CA and return it; `name`: the CA's.

        A running kube-apiserver reloads the files, and publishes the new CA beside earlier ones.
        """
        made = CertificateAuthority(self._dir / "front-proxy" / name, name)
        pair = made.issue("front-proxy-client", usage="clientAuth")
        for file, current in zip((made.file, *pair), self._front_proxy, strict=True):
            write_atomically(current, file.read_text())
        return pair

    def _etcd_command(self) -> Sequence[str]:
        client, peer = f"http://127.0.0.1:{self._etcd}", f"http://127.0.0.1:{self._peer}"
        return (
            self._binaries.etcd,
            f"--data-dir={self._dir / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",  # data need not survive a crash
        )

    def _serve(self) -> None:
        apiserver = self._running("kube-apiserver", self._apiserver_command())
        program = self._apiserver.enter_context(apiserver)
        deadline = time.monotonic() + _PATIENCE
        while not self._is_up(program, "kube-apiserver", self._api, "/readyz"):
            if time.monotonic() > deadline:
                raise ControlPlaneError(f"kube-apiserver is not ready{self._end('kube-apiserver')}")
            time.sleep(0.05)

    def expire_history(self) -> None:
        """Restart the API server: watches end, and a watch from an earlier resourceVersion gets 410 Gone."""
        self._apiserver.close()
        self._serve()

    def _apiserver_command(self) -> Sequence[str]:
        ca, cert, key = self._front_proxy
        return (
            self._binaries.apiserver,
            f"--etcd-servers=http://127.0.0.1:{self._etcd}",
            f"--cert-dir={self._dir / 'certs'}",  # it creates a certificate there
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--secure-port={self._api}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={self._accounts_key}",
            f"--service-account-key-file={self._accounts_key}",
            f"--token-auth-file={self._dir / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            f"--requestheader-client-ca-file={ca}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={cert}",
            f"--proxy-client-key-file={key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            # Nothing here creates the default ServiceAccount that this plugin requires.
            "--disable-admission-plugins=ServiceAccount",
            *self._flags,
        )

    @contextlib.contextmanager
    def scheduler(self, config: Path) -> Iterator[Callable[[], bool]]:
        """Run kube-scheduler with a configuration file until the block ends; the yielded function returns whether it is up.

        Raises NoControlPlaneError if there is no binary; the function raises ControlPlaneError if the process ended.
        """
        given = (f"--config={config}", "--v=3")
        with self._beside("kube-scheduler", self._binaries.scheduler, given) as is_up:
            yield is_up

    @contextlib.contextmanager
    def controllers(self, *names: str, flags: Sequence[str] = ()) -> Iterator[Callable[[], bool]]:
        """Run kube-controller-manager with some controllers, such as `job-controller`; otherwise as `scheduler`.

        `flags`: more flags of it.
        """
        given = (f"--kubeconfig={self.kubeconfig}", f"--controllers={','.join(names)}", *flags)
        with self._beside("kube-controller-manager", self._binaries.controllers, given) as is_up:
            yield is_up

    @contextlib.contextmanager
    def _beside(
        self, name: str, binary: str | None, given: Sequence[str]
    ) -> Iterator[Callable[[], bool]]:
        if binary is None:
            raise NoControlPlaneError(f"no {name} beside kube-apiserver")
        with HeldPort() as port:
            command = (
                binary,
                f"--secure-port={port.number}",
                "--bind-address=127.0.0.1",
                f"--cert-dir={self._dir / f'{name}-certs'}",
                "--leader-elect=false",
                *given,
            )
            with self._running(name, command) as program:
                yield lambda: self._is_up(program, name, port.number, "/healthz")

    def log(self, name: str) -> str:
        """Return the log of a component."""
        return (self._dir / f"{name}.log").read_text(errors="replace")

    @contextlib.contextmanager
    def _running(self, name: str, command: Sequence[str]) -> Iterator["subprocess.Popen[bytes]"]:
        launcher = (sys.executable, "-I", "-S", str(Path(pdeathsig.__file__)), str(os.getpid()))
        with (self._dir / f"{name}.log").open("ab") as output:
            program = subprocess.Popen(  # noqa: S603 (programs that the user named)
                (*launcher, *command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._dir,
                env=loopback_environment(),
                start_new_session=True,
            )
        try:
            yield program
        finally:
            below = descendants(program.pid)
            program.terminate()
            try:
                program.wait(3)
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()
            end(below)

    def _is_up(self, program: "subprocess.Popen[bytes]", name: str, port: int, path: str) -> bool:
        if program.poll() is not None:
            raise ControlPlaneError(f"{name} ended with {program.returncode}{self._end(name)}")
        return _is_well(port, path, {"Authorization": f"Bearer {self.token}"})

    def _end(self, name: str) -> str:
        lines = self.log(name).splitlines()[-_LAST_LINES:]
        return "\n    ".join(("; its log:", *lines))


def _is_well(port: int, path: str, headers: Mapping[str, str]) -> bool:
    # Its certificate does not exist before it starts; the reserved port identifies it.
    unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=5, context=unverified)
    try:
        connection.request("GET", path, headers=dict(headers))
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
