"""A connection to an API server: requests, list and watch, Events, errors.

Code that knows the Kubernetes API, and nothing of policies, belongs here. The other packages of `webhook.cluster` import
it.
"""
