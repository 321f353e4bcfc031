"""Tests of the package that knows the Kubernetes API."""
