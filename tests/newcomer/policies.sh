# README: a policy refuses nodes, labels them and says why. In a sandbox that runs.
export KUBECONFIG=.sandbox/kubeconfig
kubectl apply -f deploy/health-metric-demo/
kubectl -n health-metric-demo rollout status deployment/demo-app
echo 'node_health_metric 1' > .sandbox/node-b/node-metrics/text.prom
kubectl -n health-metric-demo wait --for=jsonpath='{.status.compliance}'=Violated taspolicy/demo-policy
kubectl plimsoll status
kubectl get taspolicies -A
