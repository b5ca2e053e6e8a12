"""Binary operators, set operators and aggregations of PromQL.

Pure; imports `agent.rules.promql` values, labels and plans.
"""
