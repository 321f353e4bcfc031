"""One replica: combines server, cluster and certificates, from the options to the end of the process.

Belongs here: wiring. The server below knows no cluster, the cluster no server. The `serve` command imports it.
"""
