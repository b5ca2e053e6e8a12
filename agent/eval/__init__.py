"""The `plimsoll eval` command: evaluates one PromQL expression on this node or in a recorded exposition.

Imports `agent.rules`, `agent.scrape` and `agent.config`.
"""
