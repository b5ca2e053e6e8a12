"""Reads pages of a Service through `kubectl port-forward`, for which the evaluator's pages are open by default."""

import contextlib
import json
import re
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence

_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ->")
_OPENING = 15.0
"""Seconds until kubectl forwards."""
_PATIENCE = 60.0
"""Seconds without a byte of an answer."""


class ForwardError(Exception):
    """There was no answer; the message says why, such as the last line of kubectl."""


class AnswerError(Exception):
    """The answer is an error, which the message has."""


def read(command: Sequence[str], scheme: str, target: str) -> str:
    """Return the answer for a path and query, read through a port-forward that `command` opens. Raises ForwardError, AnswerError."""
    with _forwarded(command) as port:
        # The API server authenticates the tunnel; the certificate is for the Service's name.
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        direct = urllib.request.ProxyHandler({})
        opener = urllib.request.build_opener(direct, urllib.request.HTTPSHandler(context=tls))
        try:
            url = f"{scheme}://127.0.0.1:{port}/{target}"
            with opener.open(url, timeout=_PATIENCE) as response:
                return str(response.read().decode())
        except urllib.error.HTTPError as error:
            raise AnswerError(_message(error)) from error
        except (OSError, ValueError) as error:
            raise ForwardError(f"through kubectl port-forward: {error}") from error


@contextlib.contextmanager
def _forwarded(command: Sequence[str]) -> Iterator[str]:
    """Yield the local port of a port-forward, which ends with the block."""
    with subprocess.Popen(  # noqa: S603 (kubectl, without a shell)
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        opening = threading.Timer(_OPENING, process.terminate)
        opening.start()
        try:
            line = process.stdout.readline() if process.stdout else ""
            opening.cancel()
            if (found := _FORWARDING.match(line)) is None:
                process.terminate()
                _, errors = process.communicate()
                lines = [one for one in errors.splitlines() if one.strip()]
                raise ForwardError(lines[-1] if lines else "kubectl port-forward failed")
            yield found[1]
        finally:
            opening.cancel()
            process.terminate()


def _message(error: urllib.error.HTTPError) -> str:
    """Return the sentence in an error of the evaluator, which is a metav1.Status."""
    text = error.read(1 << 16).decode(errors="replace")
    with contextlib.suppress(ValueError):
        found = json.loads(text)
        if isinstance(found, dict) and isinstance(found.get("message"), str):
            return str(found["message"])
    return f"HTTP {error.code} {error.reason}"
