# docs/switching-from-tas.md: the CRD keeps the policies, and labels change their owner.
export KUBECONFIG=.sandbox/kubeconfig
kubectl apply --server-side --force-conflicts -k deploy/crd
kubectl apply -f deploy/health-metric-demo/
kubectl get taspolicies -A
plimsoll adopt-labels --dry-run
plimsoll adopt-labels
