"""A real Kubernetes control plane, and the tests that need one."""
