"""Other systems, run beside the webhook: what becomes of the pods that it writes for them."""
