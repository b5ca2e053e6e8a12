"""An event loop on an idle machine."""

import asyncio
import subprocess
import sys
import warnings

from bench.timing import idle_machine


async def begin():
    asyncio.get_running_loop().run_in_executor(None, subprocess.run, [sys.executable, "-c", ""])


def test_closing_the_loop_waits_for_its_threads_and_skips_no_time():
    """Python 3.12 and later warn of threads that have not ended after 300 s of the loop's time."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with idle_machine() as machine:
            machine.run(begin())
