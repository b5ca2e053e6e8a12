# docs/backtest.md: what would a policy have done, as a gate in CI, and as a unit test.
plimsoll backtest -f policy.yaml --openmetrics week.om --from 7d
plimsoll backtest -f policy.yaml --openmetrics week.om \
  --fail-if 'violating>20%' --fail-if 'flaps>6/h' --fail-if 'no-node>0'
plimsoll test policy_test.yaml
