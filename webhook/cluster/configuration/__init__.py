"""ConfigMaps to policy: which count, what was accepted last, what is in force, and who is told.

Belongs here: everything between a ConfigMap and `webhook.mapping.model.policy.Policy`. The replica and the doctor import it.
"""
