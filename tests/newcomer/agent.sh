# The agent in place of node_exporter: docs/agent.md, docs/rules.md.
plimsoll eval 'max by (chip) (node_hwmon_temp_celsius)'
plimsoll check-rules /etc/plimsoll/rules/*.yaml
