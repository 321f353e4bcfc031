"""Document to vendor: each part of a validated mapping becomes its value of the model, or a problem with its line.

Code that runs once for each document belongs here. Only `webhook.mapping.load` imports it.
"""
