"""`plimsoll-evaluator adopt-labels`: takes over the node labels that Telemetry Aware Scheduling wrote.

`managed_fields` is pure; `migration` reads and writes nodes through `evaluator.core.kube`.
"""
