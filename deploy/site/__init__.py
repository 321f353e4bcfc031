"""The pages as a site that needs no network: ``python -m deploy.site``, or ``make site``."""
