"""Other systems, built from pinned sources and run beside the webhook: what becomes of the pods that it writes for them."""
