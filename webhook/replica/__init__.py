"""One replica: combines server, cluster and certificates, from the options to the end of the process.

Wiring belongs here: the server does not know the cluster, nor the cluster the server. The `serve` command imports it.
"""
