"""Kubernetes labels: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/. Pure."""
