"""The webhook configuration: the desired one, the observed one, and its reconciliation.

Belongs here: `MutatingWebhookConfiguration` and its match conditions. The replica and the doctor import it.
"""
