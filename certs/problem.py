"""What can be wrong with keys and certificates; no message ever holds any part of a key.

CertificateError            nothing can be served from this
├── UnusablePairError       a certificate and key that don't belong together, or can't be read, or aren't valid now
│   .what, .why             which of them, and the end of the sentence
└── StoreError              a place that keeps them can't be read or written
    .place, .why
"""


class CertificateError(Exception):
    """Base of all errors of this package."""


class UnusablePairError(CertificateError):
    """A certificate or its key that cannot be served."""

    def __init__(self, what: str, why: str) -> None:
        self.what = what
        self.why = why
        super().__init__(f"{what} {why}")


class StoreError(CertificateError):
    """A store that cannot be read or written."""

    def __init__(self, place: str, why: str) -> None:
        self.place = place
        self.why = why
        super().__init__(f"{place}: {why}")
