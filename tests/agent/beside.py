"""Runs the agent beside node_exporter on this machine."""

import contextlib
import re
import subprocess
import threading
from collections import deque

PEER = "prometheus-node-exporter"
LISTEN = "--web.listen-address=127.0.0.1:0"
PORT = r"istening.*?address=\S*?(127\.0\.0\.1:\d+)"
"""What both programs log when they listen."""


@contextlib.contextmanager
def running(argv, pattern):
    """Run a program until the block ends; yields what the pattern matches in its log."""
    with contextlib.ExitStack() as stack:
        process = stack.enter_context(subprocess.Popen(argv, stderr=subprocess.PIPE, text=True))
        stack.callback(process.kill)
        seen = ""
        for line in process.stderr:
            seen += line
            if match := re.search(pattern, seen, re.DOTALL):
                break
        else:
            raise AssertionError(seen)
        drain = threading.Thread(target=deque, args=(process.stderr, 0))  # a full pipe blocks it
        drain.start()
        stack.callback(drain.join)
        stack.callback(process.terminate)
        yield match[1]
