"""plimsoll-evaluator configure-scheduler: has the kube-scheduler of a kubeadm control plane ask the evaluator."""
