"""The files of `deploy/` that are made from others: the chart's schema and README, and the plain manifests."""

from pathlib import Path
from typing import Final

DEPLOY: Final = Path(__file__).parents[1]
CHART: Final = DEPLOY / "chart"
