"""The errors of this package. No message ever holds any part of a key.

CertificateError            base of all
├── UnusablePairError       a certificate or key that does not match, cannot be decoded, or is not valid now
│   .what, .why             which of them, and the rest of the sentence
└── StoreError              a store that cannot be read or written
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
