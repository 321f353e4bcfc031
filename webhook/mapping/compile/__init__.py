"""Document to vendor: each part of a validated mapping becomes its value of the model, or a problem with its line.

Belongs here: what runs once for each document. Only `webhook.mapping.load` imports it.
"""
