"""One container's request: read from a vendor's keys, completed by defaults, written in another vendor's keys.

Pure functions between keys and `webhook.request.Request` belong here, and the messages of those that fail.
"""
