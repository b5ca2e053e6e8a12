"""Entry points of the programs: they start one, or say which extra of the package to install."""

import importlib
import sys

_OURS = (
    "agent",
    "collectors",
    "evaluator",
    "kubectl_plimsoll",
    "lab",
    "plimsoll",
    "sandbox",
    "wire",
)


def agent() -> int:
    """Run plimsoll-agent."""
    return _run("plimsoll-agent", "agent.main", "agent")


def evaluator() -> int:
    """Run plimsoll-evaluator."""
    return _run("plimsoll-evaluator", "evaluator.main", "evaluator")


def sandbox() -> int:
    """Run plimsoll-sandbox."""
    return _run("plimsoll-sandbox", "sandbox.main", "sandbox")


def kubectl() -> int:
    """Run kubectl-plimsoll."""
    return _run("kubectl-plimsoll", "kubectl_plimsoll.main", "kubectl")


def _run(program: str, module: str, extra: str) -> int:
    try:
        main = importlib.import_module(module).main
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in _OURS:
            raise
        print(  # noqa: T201 - logging may be what is missing
            f"{program}: {error.name} is not installed. Install the program's dependencies, in a checkout: pip install '.[{extra}]'",
            file=sys.stderr,
        )
        return 1
    status: int = main()
    return status
