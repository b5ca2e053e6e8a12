"""Reads the evaluator's /explain pages through the API server's service proxy, with `kubectl get --raw`; where the evaluator or a
NetworkPolicy does not admit that, through `kubectl port-forward`.
"""

import contextlib
import json
import subprocess
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kubectl_plimsoll import forward
from plimsoll.text import one_line

Page = dict[str, Any]

_CLOSED = "--pagesFrom="
"""In the evaluator's refusal of the API server's service proxy."""
_LATE = "Client.Timeout exceeded"
"""In kubectl's error where no answer came within --request-timeout."""
_UNREACHED = ("i/o timeout", _LATE)
"""In errors where a NetworkPolicy drops the connection of the service proxy."""
_PATIENCE = "--request-timeout=3s"
"""How long kubectl waits for the service proxy before another way is tried; a flag of the user counts instead."""

_HINTS: Sequence[tuple[str, str]] = (
    (_CLOSED, "or you need the right to create pods/portforward in the evaluator's namespace"),
    *(
        (
            sign,
            "does a NetworkPolicy keep the API server from the evaluator's port ops? open it (--pagesFrom, see "
            "docs/kubectl-plugin.md#access), or you need the right to create pods/portforward in the evaluator's namespace",
        )
        for sign in _UNREACHED
    ),
    ("(Forbidden)", "you need the right to get services/proxy in the evaluator's namespace"),
    ('services "', "is the evaluator's namespace another one (--evaluator-namespace)?"),
    ("namespaces ", "is the evaluator's namespace another one (--evaluator-namespace)?"),
    ("no endpoints available", "no evaluator is ready: kubectl -n plimsoll get pods"),
    (
        "a bearer token is required",
        "the API server's proxy passes no token on: see docs/kubectl-plugin.md#access-with---opstls-and---opsauthorize",
    ),
)
"""Texts of kubectl's errors, and what to do."""


_DEEPEST = 50
"""Levels of a page; the evaluator's have about ten. Deeper ones could not be written again."""

_MEMORY = "plimsoll.io/memory"
"""The annotation of a node with its scores."""
_STOP = "plimsoll-stop"
"""The ConfigMap that says what is stopped."""
_PLAIN = "rejected our request"
"""In kubectl's error for the 400 of a plain HTTP request on a TLS port."""


class UnreachableError(Exception):
    """The evaluator gave no answer; the message says why, and what to do."""


_MALFORMED = (AttributeError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError)
"""What the use of a page with other fields or types raises."""


@contextlib.contextmanager
def well_formed(what: str = "the evaluator's answer") -> Iterator[None]:
    """Use a page in this block. Raises UnreachableError if it has other fields or types than pages of this version have."""
    try:
        yield
    except _MALFORMED as error:
        kind = type(error).__name__
        raise UnreachableError(
            f"{what} is malformed ({one_line(f'{kind}: {error}', 100)}): is the plugin's version that of the evaluator? "
            "-o json shows the answer"
        ) from error


@dataclass(frozen=True)
class Evaluator:
    """The evaluator's Service. `kubectl`: the command with the user's flags, such as --context."""

    kubectl: Sequence[str] = ("kubectl",)
    namespace: str = "plimsoll"
    service: str = "plimsoll-evaluator"
    port: str = "ops"

    def get(
        self, path: str = "", query: Mapping[str, str] | None = None, *, page: str = "explain"
    ) -> Page:
        """Return the page below /explain or of another page, over HTTP, or over HTTPS if the port has TLS. Raises UnreachableError."""
        path = f"{page}/{path}" if path else page
        try:
            return self._get("http", path, query)
        except UnreachableError as error:
            if _PLAIN not in str(error):
                raise
        return self._get("https", path, query)

    def _get(self, scheme: str, path: str, query: Mapping[str, str] | None) -> Page:
        target = urllib.parse.quote(path)
        if query:
            target += f"?{urllib.parse.urlencode(query, safe='/')}"
        where = f"/api/v1/namespaces/{self.namespace}/services/{scheme}:{self.service}:{self.port}/proxy/{target}"
        text = self._read(scheme, where, target)
        try:
            page = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UnreachableError(
                f"the response of {where} is not JSON: is that the evaluator's port?"
            ) from error
        if _is_deep(page):
            raise UnreachableError(
                f"the response of {where} has more than {_DEEPEST} levels: is that the evaluator's port?"
            )
        if not isinstance(page, dict):
            raise UnreachableError(
                f"the response of {where} is no object: is that the evaluator's port?"
            )
        return page

    def _read(self, scheme: str, where: str, target: str) -> str:
        """Return the answer of the service proxy, or of a port-forward if the proxy is refused. Raises UnreachableError."""
        proxied = ("get", "--raw", where)
        program, *flags = self.kubectl
        try:
            return _output([program, _PATIENCE, *flags, *proxied])
        except UnreachableError as refused:
            if not any(sign in str(refused) for sign in (_CLOSED, *_UNREACHED)):
                raise
            ports = ("port-forward", f"service/{self.service}", f":{self.port}")
            try:
                command = [*self.kubectl, "-n", self.namespace, *ports]
                return forward.read([*command, "--address=127.0.0.1"], scheme, target)
            except forward.AnswerError as error:
                raise UnreachableError(_explained(str(error))) from error
            except (forward.ForwardError, OSError):
                if _LATE in str(refused):  # a slow answer, perhaps
                    return self._run(*proxied)
                raise refused from None

    def acknowledge(self, node: str, problem: str) -> None:
        """Annotate a node: a person has seen its problem now, and takes it for ended. Raises UnreachableError."""
        user = self.user()
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        note = f"plimsoll.io/ack.{problem}={now} {user}".rstrip()
        self._run("annotate", "node", "--overwrite", node, note)

    def user(self) -> str:
        """Return the name of the user; empty if it is not known."""
        whoami = ("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
        try:
            return one_line(self._run(*whoami), 100)
        except UnreachableError:  # an API server before 1.28
            return ""

    def stops(self) -> dict[str, str]:
        """Return the entries of the stop. Raises UnreachableError."""
        text = self._run(*self._stop("get"), "--ignore-not-found", "-o", "json")
        try:
            found = json.loads(text) if text.strip() else {}
        except (ValueError, RecursionError) as error:
            raise UnreachableError(f"ConfigMap {_STOP} is unreadable: {error}") from error
        with well_formed(f"ConfigMap {_STOP}"):
            return {**(found.get("binaryData") or {}), **(found.get("data") or {})}

    def write_stops(self, data: Mapping[str, str | None]) -> None:
        """Set entries of the stop, and remove those without a text. Raises UnreachableError."""
        removed = [key for key, text in data.items() if text is None]
        body: Page = {"data": dict(data)}
        if removed:
            body["binaryData"] = dict.fromkeys(removed)
        patch = (*self._stop("patch"), "--type", "merge", "-p", json.dumps(body))
        try:
            self._run(*patch)
        except UnreachableError as error:
            if "NotFound" not in str(error):
                raise
            self._run("-n", self.namespace, "create", "configmap", _STOP)
            self._run(*patch)

    def check_policy(self, policy: str) -> None:
        """Raise UnreachableError unless the policy namespace/name can be read."""
        namespace, _, name = policy.partition("/")
        self._run(
            "-n", namespace, "get", "taspolicies.telemetry.intel.com", "-o", "name", "--", name
        )

    def _stop(self, verb: str) -> tuple[str, ...]:
        return "-n", self.namespace, verb, "configmap", _STOP

    def current_namespace(self) -> str:
        """Return the namespace of the kubeconfig's context; `default` if it has none."""
        view = ("config", "view", "--minify", "-o", "jsonpath={..namespace}")
        try:
            return self._run(*view).strip() or "default"
        except UnreachableError:  # no kubeconfig, as with a service account's token
            return "default"

    def forget(self, node: str) -> str:
        """Delete the scores of a node, by kubectl; return its answer. Raises UnreachableError."""
        return self._run("annotate", "node", "--", node, f"{_MEMORY}-").strip()

    def _run(self, *arguments: str) -> str:
        return _output([*self.kubectl, *arguments])


def _output(command: Sequence[str]) -> str:
    """Return what a command prints. Raises UnreachableError."""
    try:
        done = subprocess.run(  # noqa: S603 (kubectl, without a shell)
            command, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise UnreachableError(f"{command[0]} cannot be started: {error}") from error
    if done.returncode:
        raise UnreachableError(_explained(done.stderr))
    return done.stdout


def _is_deep(value: Any) -> bool:
    """Return whether a JSON value has more than `_DEEPEST` levels."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for parent in level
            if isinstance(parent, (dict, list))
            for inner in (parent.values() if isinstance(parent, dict) else parent)
        ]
    return bool(level)


def _explained(stderr: str) -> str:
    """Return kubectl's last line, with a hint."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    text = one_line(lines[-1] if lines else "kubectl failed without a message")
    text = text.removeprefix("Error from server: ")
    hint = next((hint for sign, hint in _HINTS if sign in text), "")
    return f"{text} ({hint})" if hint else text
