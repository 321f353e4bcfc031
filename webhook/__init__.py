"""Kubernetes admission webhook: a pod that requests a GPU share in one vendor's keys gets those that its cluster serves."""

__version__ = "0.1.0"
