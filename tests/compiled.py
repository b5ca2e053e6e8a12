"""Compiled templates that the tests of a process share, by template and text."""

import functools
from typing import TYPE_CHECKING

from plimsoll.html.templates import Templates

if TYPE_CHECKING:
    import pytest
    from jinja2 import BytecodeCache, Environment


def share(patch: "pytest.MonkeyPatch") -> None:
    """Give all environments the same cache, which compares the text of a template with that of the compiled one."""
    usual = Templates._made

    def environment(self: Templates) -> "Environment":
        made = usual(self)
        made.bytecode_cache = _cache()
        return made

    patch.setattr(Templates, "_made", environment)


@functools.cache
def _cache() -> "BytecodeCache":
    from jinja2 import bccache  # not by tests without pages

    class Memory(bccache.BytecodeCache):
        """Bytecode in memory."""

        def __init__(self) -> None:
            self._known: dict[str, bytes] = {}

        def load_bytecode(self, bucket: bccache.Bucket) -> None:
            if (known := self._known.get(bucket.key)) is not None:
                bucket.bytecode_from_string(known)

        def dump_bytecode(self, bucket: bccache.Bucket) -> None:
            self._known[bucket.key] = bucket.bytecode_to_string()

    return Memory()
