"""What the mutating webhooks of other systems do to a pod, and that ours gets on with them."""
