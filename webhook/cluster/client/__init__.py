"""A connection to an API server: requests, list and watch, Events, errors.

Belongs here: what knows the Kubernetes API and nothing of policy. The other packages of `webhook.cluster` import it.
"""
