"""Tests of the room that knows the Kubernetes API."""
