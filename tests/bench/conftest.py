"""Runs benchmarks as programs."""

import json
import select
import subprocess
import sys
import tempfile

from tests.patience import PATIENCE


def lines_of(program, *arguments):
    """Run a benchmark that prints nothing but lines of JSON; return them.

    It hangs if it takes PATIENCE for one line: on a busy machine it may take longer for all.
    """
    argv = [sys.executable, "-P", str(program), *arguments]
    lines = []
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=errors, bufsize=0) as running,
    ):
        try:
            while line := _next_line(running, lines):
                lines.append(json.loads(line))
            status = running.wait(PATIENCE)
        except BaseException:
            running.kill()
            raise
        errors.seek(0)
        said = errors.read()
        assert status == 0, said[-2000:]
        assert said == ""
    return lines


def _next_line(running, before):
    """Return the next line; empty at the end."""
    ready, _, _ = select.select([running.stdout], [], [], PATIENCE)
    assert ready, f"no further line in {PATIENCE:g} s after {before}"
    return running.stdout.readline()
