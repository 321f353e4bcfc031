"""Everything that knows the Kubernetes API: what is watched there, and what is written there."""
