"""What kube-scheduler asks, and what it is told: messages (bytes), verbs (decisions), server (HTTP)."""
