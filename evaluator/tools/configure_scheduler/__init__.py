"""`plimsoll configure-scheduler`: adds the extender to the kube-scheduler of a kubeadm control plane.

`configuration` and `staticpod` are pure; only `main` touches files.
"""
