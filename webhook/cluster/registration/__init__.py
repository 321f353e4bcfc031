"""The webhook configuration: what it should be, what it is, and keeping it so.

Belongs here: `MutatingWebhookConfiguration` and its match conditions. The replica and the doctor import it.
"""
