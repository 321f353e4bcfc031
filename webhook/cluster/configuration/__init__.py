"""From ConfigMaps to a policy: which of them count, what was accepted last, what is in force, and reports about it.

Everything between a ConfigMap and a `webhook.mapping.model.policy.Policy` belongs here. The replica and the doctor import
it.
"""
