"""How fast the webhook is: ``python -m benchmarks`` measures it beside an aiohttp handler that does nothing."""
