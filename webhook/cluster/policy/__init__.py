"""From ConfigMaps to a policy: the documents in them, those in force together, those accepted last, and what is in force now.

Everything between a ConfigMap and a `webhook.mapping.model.policy.Policy` belongs here. The replica and the doctor import
it.
"""
