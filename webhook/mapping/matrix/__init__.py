"""What becomes of any vendor's requests in another's keys, derived from the two documents, for pages and tests.

Belongs here: what looks at all requests at once. No review comes here.
"""
