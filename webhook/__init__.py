"""Kubernetes admission webhook: a pod asks for a GPU share in one vendor's keys and gets what its node really runs."""

__version__ = "0.1.0"
