"""Quantities with units: read, converted, shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prfaas_plan.errors import UnitError
from prfaas_plan.units import UNITS, convert, parse, parse_tokens, show, show_scaled


@pytest.mark.parametrize(
    ("written", "unit", "value"),
    [
        ("100 Gbit/s", "B/s", 12.5e9),
        ("100 Gbps", "Gbit/s", 100.0),
        ("139 GiB", "B", 139 * 2**30),
        ("190.8 MiB", "B", 190.8 * 1048576),
        ("4.8 TB/s", "GB/s", 4800.0),
        ("250", "ms", 250.0),
        ("1_000 ms", "s", 1.0),
        ("9,909.68", "ms", 9909.68),
        ("1e3 W", "kW", 1.0),
        ("25 ms", "s", 0.025),
    ],
)
def test_reads_quantities(written: str, unit: str, value: float) -> None:
    assert parse(written, unit) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("written", ["fast", "", "1 parsec", "10 GB", "--1", "1 2", "nan", "inf", "1e", "0x10"])
def test_refuses_what_is_no_rate(written: str) -> None:
    with pytest.raises(UnitError):
        parse(written, "Gbit/s")


@pytest.mark.parametrize(
    ("written", "tokens"),
    [(32000, 32000), ("32000", 32000), ("32k", 32000), ("32K", 32000), ("32Ki", 32768), ("1M", 10**6), ("0.5k", 500)],
)
def test_reads_token_counts(written: str | float, tokens: int) -> None:
    assert parse_tokens(written) == tokens


@pytest.mark.parametrize("written", ["many", "1.5", 1.5, "-3", float("nan"), float("inf"), True, "32kB", "1e400"])
def test_refuses_what_is_no_token_count(written: str | float) -> None:
    with pytest.raises(UnitError):
        parse_tokens(written)


@given(st.floats(1e-6, 1e6), st.sampled_from(sorted(UNITS)), st.sampled_from(sorted(UNITS)))
def test_conversion_there_and_back(value: float, unit: str, other: str) -> None:
    if UNITS[unit].dimension == UNITS[other].dimension:
        assert convert(convert(value, unit, other), other, unit) == pytest.approx(value, rel=1e-12)
    else:
        with pytest.raises(UnitError):
            convert(value, unit, other)


@given(st.floats(1e-3, 1e12))
def test_shown_rates_read_back(value: float) -> None:
    shown = show(value, "B/s", digits=6)
    assert parse(shown, "B/s") == pytest.approx(value, rel=1e-5)


def test_a_bit_is_an_eighth_of_a_byte_and_gbps_are_decimal() -> None:
    assert convert(8, "Gbit/s", "GB/s") == 1.0
    assert convert(1, "GiB", "GB") == pytest.approx(1.073741824)
    assert show_scaled(989e12, "FLOP/s") == "989 TFLOP/s"
