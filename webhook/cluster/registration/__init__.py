"""The webhook configuration: the desired one, the observed one, and its reconciliation.

The `MutatingWebhookConfiguration` and its match conditions belong here. The replica and the doctor import it.
"""
