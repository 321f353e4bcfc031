"""How a number stands in a pod: as the API server writes it, as users do, and as nobody honest would."""

from tests.fuzz.draw import Draw
from tests.fuzz.requests.ask import Value

HOSTILE: tuple[Value, ...] = (
    *("", "abc", "1 ", " 1", "\uff11", "1i", "0x10", "1e", "e3", ".", "-", "+", "1..2", "1.2.3", "--1", "∞", "NaN"),
    *("1E+", "1_000", "-1", "500m", "0.5", ".5", "1.5", "0.3", "-500m", "1n", "1u", "999999999n", "0.0000001", "1e-7"),
    *("1e-20", "8Gi", "1Ti", "2Ti", "1Ei", "7E", "8E", "9223372036854775807", "9223372036854775808"),
    *("18446744073709551616", "1e20", "1e21", "1e18", "1e10000000", "9" * 40, "9" * 41, "0" * 39 + "3", "0" * 41 + "3"),
    *("3." + "0" * 39, "3." + "0" * 38, "9223372036854775807n", "9223372036854775807000m", "3.0000000000000000001"),
    *("3.0000001", "2.9999999", -1, 0, 101, 150, 200, 4096, 4097, 2**31, 2**63 - 1, 2**63, 1.5, 0.5),
)
ZEROS: tuple[Value, ...] = ("0", "0", "0", 0, "0m", "0n", "-0", "0Gi", "0e3", "0.0", "+0")


def written(draw: Draw, value: Value) -> Value:
    """A value as it could stand in a manifest: the same number, nearly always."""
    if not isinstance(value, int):
        return value
    odd = draw.random()
    if odd < 0.6:
        return f"{value // 1000}k" if value and value % 1000 == 0 and draw.chance(0.6) else str(value)
    if odd < 0.86:
        return value if odd < 0.7 else str(value)
    if odd < 0.93:
        return draw.pick(
            (
                f"{value}000m",
                f"{value}.",
                f"{value}.0",
                f"+{value}",
                f"{value}e0",
                f"{value}E0",
                f"{value}000000u",
                f"0{value}",
            )
        )
    if odd < 0.95:
        return draw.pick(ZEROS)
    if odd < 0.97:
        return draw.pick(HOSTILE)
    if odd < 0.985:
        return close(draw, value)
    other: tuple[Value, ...] = (
        value * 1024,
        value * 2**20,
        f"{value}Gi",
        f"{value}Mi",
        f"{value}k",
        100 * value,
        value + 1,
    )
    return draw.pick(other)


def close(draw: Draw, value: int) -> str:
    """Nearly a whole number: a part too small for any number of digits that somebody would round to."""
    ending = draw.pick(("000000001n", "000001u", "001m", "000000500n", "500m", ".0000001", ".000000001", "000000001n"))
    return f"{value}{ending}"
