"""Runs an agent with the GPUs of a simulated node in place of NVIDIA's library: `gpus.py <file of sandbox/machine.py> [flag...]`.

What is faked is pynvml, the package nvidia-ml-py; the agent's collector is the real one.
"""

import json
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

_TIMEOUT = 10
_ACTION, _XID = 230, 8
_NOT_SUPPORTED = 3


class NVMLError(Exception):
    """An error of the library."""

    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


class FakeLibrary:
    """The part of pynvml that the collector uses. A handle is the GPU's index; unknown functions do not exist."""

    NVMLError = NVMLError
    nvmlMemory_v2 = 0x02000028  # noqa: N815 (its names)
    nvmlEventTypeXidCriticalError = _XID  # noqa: N815
    NVML_TEMPERATURE_GPU = 0
    NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 0, 1
    NVML_VOLATILE_ECC, NVML_AGGREGATE_ECC = 0, 1
    NVML_FI_DEV_MEMORY_TEMP = 82
    NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = _ACTION

    def __init__(self, file: Path) -> None:
        self._file = file
        self._pci = sorted(self._state())
        self._reported = [len(self._gpu(handle)["xids"]) for handle in range(len(self._pci))]

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self._file.read_text())
        return state

    def _gpu(self, handle: int) -> dict[str, Any]:
        return dict(self._state()[self._pci[handle]])

    def __getattr__(self, name: str) -> Any:
        function = _FUNCTIONS.get(name)
        if function is None:
            raise AttributeError(name)
        return lambda *arguments: function(self, *arguments)

    def fields(self, handle: int, numbers: Sequence[int]) -> list[SimpleNamespace]:
        """Return values of fields: only the recovery action is supported."""
        action = self._gpu(handle)["recovery_action"]
        return [
            SimpleNamespace(
                nvmlReturn=0 if number == _ACTION else _NOT_SUPPORTED,
                valueType=1,
                value=SimpleNamespace(uiVal=action),
            )
            for number in numbers
        ]

    def event(self, _events: str, _milliseconds: int) -> SimpleNamespace:
        """Return the next XID error that was not returned before. Raises NVMLError if there is none."""
        for handle, reported in enumerate(self._reported):
            codes = self._gpu(handle)["xids"][reported:]
            if codes:
                self._reported[handle] += 1
                return SimpleNamespace(device=handle, eventData=codes[0])
        raise NVMLError(_TIMEOUT)

    def count(self) -> int:
        """Return the number of GPUs."""
        return len(self._pci)

    def bus_id(self, handle: int) -> str:
        """Return a GPU's PCI bus id as NVML writes it."""
        return f"0000{self._pci[handle]}.0".upper()


_FUNCTIONS: dict[str, Any] = {
    "nvmlInit": lambda _: None,
    "nvmlShutdown": lambda _: None,
    "nvmlSystemGetDriverVersion": lambda _: "580.95.05",
    "nvmlDeviceGetCount": FakeLibrary.count,
    "nvmlDeviceGetHandleByIndex": lambda _, index: index,
    "nvmlDeviceGetUUID": lambda _, handle: f"GPU-00000000-0000-0000-0000-{handle:012d}",
    "nvmlDeviceGetName": lambda _, _handle: "NVIDIA H100 80GB HBM3",
    "nvmlDeviceGetPciInfo": lambda library, handle: SimpleNamespace(busId=library.bus_id(handle)),
    "nvmlDeviceGetMinorNumber": lambda _, handle: handle,
    "nvmlDeviceGetTemperature": lambda _, _handle, _sensor: 41,
    "nvmlDeviceGetFieldValues": FakeLibrary.fields,
    "nvmlDeviceGetSupportedEventTypes": lambda _, _handle: _XID,
    "nvmlDeviceRegisterEvents": lambda *_: None,
    "nvmlEventSetCreate": lambda _: "events",
    "nvmlEventSetWait_v2": FakeLibrary.event,
}


def main() -> None:
    """Run the agent with this library."""
    _, file, *flags = sys.argv
    sys.modules["pynvml"] = FakeLibrary(Path(file))  # type: ignore[assignment]
    sys.argv = ["agent", *flags]
    runpy.run_module("agent", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
