"""A test in a process of its own, for what the threads of other tests would disturb."""

import functools
import gc
import os
import traceback
import warnings

import pytest


def alone(test):
    """Run a test in a forked process, which has the calling thread only: tracemalloc counts the allocations of all."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which stay behind
            child = _fork()
        if not child:
            _report(write, test, args, kwargs)
        os.close(write)
        with os.fdopen(read, encoding="utf-8") as pipe:
            failure = pipe.read()
        _, status = os.waitpid(child, 0)
        if failure or status:
            pytest.fail(failure or f"the test's process ended with status {status}", pytrace=False)

    return run


def _fork():
    """Fork. A store reserves 340 MB: with 70 that wait for the collector, Linux rejects the copy as larger than the memory."""
    try:
        return os.fork()
    except OSError:
        gc.unfreeze()
        gc.collect()
        return os.fork()


def _report(write, test, args, kwargs):
    """Run the test, write what it raised, and end the process without the parent's exit handlers."""
    status = 1
    try:
        test(*args, **kwargs)
        status = 0
    finally:
        if status:
            os.write(write, traceback.format_exc().encode()[-60_000:])  # what a pipe holds
        os._exit(status)
