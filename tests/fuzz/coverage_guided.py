"""Runs one decoder under atheris (coverage-guided): takes a target's name and libFuzzer's flags."""

import sys

import atheris
import structlog

with atheris.instrument_imports(
    include=["agent", "collectors", "evaluator", "plimsoll", "wire", "yaml"]
):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    """Run until a libFuzzer limit is reached or the target fails."""
    program, name, *flags = sys.argv
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))
    atheris.Setup([program, *flags], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
