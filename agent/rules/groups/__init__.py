"""Rule groups as values: what a rule file says, what a group depends on, and one evaluation of it.

Pure; imports `agent.rules.promql` and `agent.rules.storage`.
"""
