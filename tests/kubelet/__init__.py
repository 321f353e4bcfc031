"""A stand-in for a node: what a kubelet, a container runtime and kube-proxy do for a pod, as far as these tests need it.

The control plane and the pods live in a network namespace of their own, made without root. There every pod has an address,
every Service its cluster IP, and the API server dials a webhook's Service as in a cluster.
"""
