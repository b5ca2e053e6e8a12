"""Number of examples of property tests: few in `make test`, more with --soak."""

from hypothesis import HealthCheck, settings

_DEFAULT = 15
_DEFAULT_FULL = 1000
_FULL = 40
"""Multiplier of examples with --soak."""
_factor = 1


def load_settings(*, full: bool) -> None:
    """Load the settings of all property tests; call it before their modules are imported.

    Neither a slow example nor slow generation fails a test: the machine may be busy.
    """
    global _factor  # noqa: PLW0603
    _factor = _FULL if full else 1
    settings.register_profile(
        "patient",
        max_examples=_DEFAULT_FULL if full else _DEFAULT,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("patient")


def examples(quick: int) -> int:
    """Return the number of examples to run where `make test` runs `quick`."""
    return quick * _factor
