"""Kubernetes quantities: read exactly, and nothing that could stop a replica."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook import request
from webhook.request import (
    MAX_VALUE,
    Number,
    QuantityError,
    bytes_text,
    canonical,
    ceil_to,
    exact_text,
    number_text,
    parse_quantity,
    simplest,
)

SPELLINGS: dict[Number, str] = {
    0: "0 -0 0e20",
    7: "007",
    3000: "3000 3k 3E3",
    16_000: "16k",
    Fraction(1, 2): "500m .5",
    Fraction(3, 2): "1500m",
    3: "3000m 2.9999999999",
    Fraction(5, 2): "2500000u",
    Fraction(1, 10**9): "1n 1e-20",
    8 * 1024**3: "8Gi",
    1024: "1Ki",
    1536: "1.5Ki",
    **{10 ** (6 + 3 * power): f"1{suffix}" for power, suffix in enumerate("MGTPE")},
    7 * 1024**6: "7Ei",
    1000: "1e3 1E+3",
    Fraction(1, 1000): "1e-3",
    5: "5.",
    5120: "5.Ki",
    2: "+2",
    -2: "-2",
    Fraction(1, 10): "0.1",
    Fraction(3_000_000_001, 10**9): "3.0000000001",
    -3: "-2.9999999999",
    MAX_VALUE: str(MAX_VALUE),
    -MAX_VALUE: f"-{MAX_VALUE}",
}


@pytest.mark.parametrize(
    "text, number", [(text, number) for number, texts in SPELLINGS.items() for text in texts.split()]
)
def test_reads_what_kubernetes_reads(text: str, number: Number) -> None:
    """Every spelling is exact; whole numbers are ints."""
    assert parse_quantity(text) == number
    assert isinstance(parse_quantity(text), int) == isinstance(number, int)


@pytest.mark.parametrize(
    "text, spelling",
    [
        ("3000", "3000"),
        ("3k", "3000"),
        ("8192Mi", "8Gi"),
        ("0.5Ki", "512"),
        ("3000000000n", "3"),
        ("3000000001n", "3.000000001"),
        ("1000000500m", "1000000.5"),
        ("9000000000.000000001", "9000000000.000000001"),
        ("1234567890123456789.5", "1234567890123456789.5"),
        ("-1n", "-0.000000001"),
        ("0.9999999999", "1"),
        ("much", "much"),
    ],
)
def test_one_spelling(text: str, spelling: str) -> None:
    """The same for all that mean the same, and never for what means something else."""
    assert canonical(text) == spelling
    assert canonical(spelling) == spelling


@given(st.fractions(min_value=0, max_value=10**12, max_denominator=10**9))
def test_one_spelling_for_one_number(fraction: Fraction) -> None:
    """Read back, a spelling is the number that it stands for, to the last billionth."""
    billionths = fraction * 10**9 // 1
    assert parse_quantity(canonical(f"{billionths}n")) == Fraction(billionths, 10**9)


@pytest.mark.parametrize(
    "number, text", [(3, "3"), (Fraction(1, 2**20), "0.00000095367431640625"), (Fraction(1, 3), "0.333333")]
)
def test_exact_numbers(number: Number, text: str) -> None:
    """All digits, where they end."""
    assert exact_text(number) == text


NO_QUANTITIES = (
    "abc . - + --1 1.2.3 1_000 0x10 1,5 \uff11 \u0663 1i 1ki 1K 1mi 1Gb 1KiB 1e 1e1.5 1e3k e3 NaN inf Infinity 1/2"
)


@pytest.mark.parametrize("text", ["", " ", "1 ", " 1", "1 k", "1\n", *NO_QUANTITIES.split()])
def test_refuses_what_is_no_quantity(text: str) -> None:
    """The error shows the text and says that it is none."""
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)
    assert caught.value.text == text
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    "text, why",
    [
        ("9" * 41, "longer"),
        ("0" * 41, "longer"),
        ("1" + "0" * 5_000_000, "longer"),
        ("1e21", "exponent"),
        ("1e-21", "exponent"),
        ("1e10000000", "exponent"),
        ("0e9999999999", "exponent"),
        (f"1e{'9' * 30}", "exponent"),
        (str(MAX_VALUE + 1), "more than any"),
        (str(-MAX_VALUE - 1), "more than any"),
        ("8Ei", "more than any"),
        ("1e19", "more than any"),
        ("99E", "more than any"),
    ],
)
def test_refuses_what_is_too_much_before_computing_it(monkeypatch: pytest.MonkeyPatch, text: str, why: str) -> None:
    """Length and exponent are looked at on the text: `1e10000000` is legal elsewhere and would take seconds."""
    if why != "more than any":
        monkeypatch.setattr(request, "Fraction", None)
    with pytest.raises(QuantityError, match=why) as caught:
        parse_quantity(text)
    assert len(str(caught.value)) < 160


_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4}


@given(
    st.decimals(min_value=-9000, max_value=9000, allow_nan=False, places=3),
    st.sampled_from([*_SUFFIXES, *_BINARY, "e3", "E-2", "e+5"]),
)
def test_agrees_with_decimal_arithmetic(number: Decimal, suffix: str) -> None:
    """The value is the number times what its suffix stands for, to the billionth, and from there away from 0."""
    if suffix in _BINARY:
        expected = Fraction(number) * 1024 ** _BINARY[suffix]
    elif suffix in _SUFFIXES:
        expected = Fraction(number) * Fraction(10) ** _SUFFIXES[suffix]
    else:
        expected = Fraction(number) * Fraction(10) ** int(suffix[1:])
    billionths = expected * 10**9
    expected = Fraction(-(-abs(billionths) // 1) * (1 if expected > 0 else -1), 10**9)
    if abs(expected) <= MAX_VALUE:
        assert parse_quantity(f"{number:f}{suffix}") == expected


@given(st.text(alphabet="0123456789.+-eEkKMmiIGTPnu _x\n", max_size=50))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing but a number or a QuantityError, and never a float."""
    try:
        number = parse_quantity(text)
    except QuantityError:
        return
    assert isinstance(number, int | Fraction)
    assert -MAX_VALUE <= number <= MAX_VALUE


@pytest.mark.parametrize(
    "number, step, result",
    [
        (0, 5, 0),
        (1, 5, 5),
        (5, 5, 5),
        (33, 5, 35),
        (Fraction(1, 3), 1, 1),
        (Fraction(7, 10), Fraction(1, 4), Fraction(3, 4)),
    ],
)
def test_rounding_up_to_a_step(number: Number, step: Number, result: Number) -> None:
    """The least multiple that is not below; what is one already does not move."""
    assert ceil_to(number, step) == result
    assert ceil_to(result, step) == result


def test_whole_fractions_become_ints() -> None:
    """A number has one form."""
    assert isinstance(simplest(Fraction(4, 2)), int)
    assert simplest(Fraction(1, 2)) == Fraction(1, 2)


@pytest.mark.parametrize(
    "amount, text",
    [
        (8 * 1024**3, "8 GiB"),
        (2048 * 1024**2, "2 GiB"),
        (5000 * 1024**2, "5000 MiB"),
        (1024**4, "1 TiB"),
        (1536, "1536 B"),
        (4096, "4 KiB"),
        (1024**2 * 3 // 2 + 1, "1572865 B"),
        (24 * 1024**3 + 1, "25769803777 B"),
        (0, "0 B"),
    ],
)
def test_bytes_for_people(amount: Number, text: str) -> None:
    """The largest unit that says the amount exactly."""
    assert bytes_text(amount) == text


@pytest.mark.parametrize(
    "number, text", [(3, "3"), (Fraction(6, 2), "3"), (Fraction(1, 2), "0.5"), (Fraction(1, 3), "0.333333")]
)
def test_numbers_for_people(number: Number, text: str) -> None:
    """Whole numbers exactly, others with six digits."""
    assert number_text(number) == text
