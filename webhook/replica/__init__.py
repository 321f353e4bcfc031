"""One replica: combines server, cluster and certificates, from the options to the end of the process.

Wiring belongs here: the server does not know the cluster, nor the cluster the server. The `serve` command imports it. A server
by itself (`run`) loads no client of a cluster, which takes 0.3 s; what needs one is in `in_cluster`.
"""
