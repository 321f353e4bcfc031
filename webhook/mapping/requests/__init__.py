"""One container's request: read from a vendor's keys, completed by defaults, written in another vendor's keys.

Belongs here: pure functions between keys and `webhook.request.Request`, and the messages of those that fail.
"""
