"""From ConfigMaps to policy: which of them count, what was accepted last, what is in force, and reports about it.

Belongs here: everything between a ConfigMap and `webhook.mapping.model.policy.Policy`. The replica and the doctor import it.
"""
