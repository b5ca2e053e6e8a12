"""Requeues rejected pods as soon as their policy permits a node (--nudge)."""
