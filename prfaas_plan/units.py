"""The only table of unit multipliers, and how quantities are read and shown.

Formulas work in base units: byte, second, token, FLOP, watt, US dollar.
Decimal prefixes are powers of 1000, binary ones (Ki, Mi, Gi, Ti) of 1024; a small b is a bit.
"""

from __future__ import annotations

import math
import re
from typing import Final, NamedTuple

from prfaas_plan.errors import Fault, UnitError, nearest

__all__ = ["GBPS", "UNITS", "convert", "is_token_unit", "parse", "parse_tokens", "show", "show_bytes", "show_scaled"]

GBPS: Final = 1e9 / 8
"""Bytes per second in one Gbit/s (network rates are decimal)."""


class Unit(NamedTuple):
    """A unit as a multiple of the base unit of its dimension."""

    dimension: str
    factor: float


def _prefixed(symbol: str, dimension: str, base: float, prefixes: dict[str, float]) -> dict[str, Unit]:
    return {prefix + symbol: Unit(dimension, base * factor) for prefix, factor in prefixes.items()}


_DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}

UNITS: Final[dict[str, Unit]] = {
    "1": Unit("number", 1.0),
    "fraction": Unit("number", 1.0),
    "%": Unit("number", 0.01),
    "token": Unit("token", 1.0),
    "tokens": Unit("token", 1.0),
    "ktoken": Unit("token", 1e3),
    "s": Unit("time", 1.0),
    "ms": Unit("time", 1e-3),
    "us": Unit("time", 1e-6),
    "µs": Unit("time", 1e-6),
    "ns": Unit("time", 1e-9),
    "min": Unit("time", 60.0),
    "h": Unit("time", 3600.0),
    "year": Unit("time", 8760.0 * 3600.0),
    "req/s": Unit("request rate", 1.0),
    "req/min": Unit("request rate", 1.0 / 60.0),
    "token/s": Unit("token rate", 1.0),
    "tokens/s": Unit("token rate", 1.0),
    "USD": Unit("money", 1.0),
    "USD/h": Unit("money rate", 1.0),
    "USD/GB": Unit("money per data", 1e-9),
    "USD/Mtoken": Unit("money per token", 1e-6),
    "USD/month": Unit("money rate", 1.0 / 730.0),
    "B/token": Unit("bytes per token", 1.0),
    **_prefixed("B", "bytes", 1.0, _DECIMAL | _BINARY),
    **_prefixed("bit", "bytes", 0.125, _DECIMAL),
    **_prefixed("B/s", "data rate", 1.0, _DECIMAL | _BINARY),
    **_prefixed("bit/s", "data rate", 0.125, _DECIMAL),
    **_prefixed("bps", "data rate", 0.125, {k: v for k, v in _DECIMAL.items() if k}),
    **_prefixed("FLOP", "FLOP", 1.0, _DECIMAL),
    **_prefixed("FLOP/s", "FLOP rate", 1.0, _DECIMAL),
    "TFLOPS": Unit("FLOP rate", 1e12),
    "TOPS": Unit("FLOP rate", 1e12),
    **_prefixed("W", "power", 1.0, {k: v for k, v in _DECIMAL.items() if k != "P"}),
}
"""Every unit this package knows, by the symbol it is written with."""

_QUANTITY = re.compile(r"\s*([-+]?[0-9][0-9_,]*\.?[0-9]*(?:[eE][-+]?[0-9]+)?|[-+]?\.[0-9]+)\s*(\S.*?)?\s*")
_TOKENS = re.compile(r"\s*([0-9][0-9_,]*\.?[0-9]*(?:[eE][0-9]+)?)\s*(k|K|M|Ki|Mi)?\s*(?:tokens?)?\s*")
_TOKEN_FACTORS = {None: 1, "": 1, "k": 1000, "K": 1000, "M": 1_000_000, "Ki": 1024, "Mi": 1024 * 1024}


def is_token_unit(unit: str) -> bool:
    """Say whether a unit counts tokens, so that ``32k`` and ``32Ki`` are understood."""
    return unit in UNITS and UNITS[unit].dimension == "token"


def _unit(symbol: str, to: str, where: str, key: str) -> Unit:
    try:
        return UNITS[symbol]
    except KeyError:
        wanted = UNITS[to].dimension if to in UNITS else ""
        fitting = [name for name, unit in UNITS.items() if unit.dimension == wanted]
        problem = f"unknown unit {symbol!r}; expected one of {wanted or 'those known'} [{to}]"
        raise UnitError(Fault(where, key, problem, symbol, nearest(symbol, fitting))) from None


def convert(value: float, unit: str, to: str, *, where: str = "unit", key: str = "") -> float:
    """Convert a value between two units of one dimension.

    Raises `UnitError` for an unknown unit or two units of different dimensions.

    >>> convert(100, "Gbit/s", "B/s")
    12500000000.0
    >>> convert(1, "GiB", "MB")
    1073.741824
    """
    source, target = _unit(unit, to, where, key), _unit(to, unit, where, key)
    if source.dimension != target.dimension:
        problem = f"a unit of {source.dimension} where one of {target.dimension} [{to}] is expected"
        raise UnitError(Fault(where, key, problem, unit))
    return value if unit == to else value * (source.factor / target.factor)


def parse(text: str, to: str, *, where: str = "value", key: str = "") -> float:
    """Read a quantity such as ``"4.8 TB/s"`` in the unit `to`; a bare number is taken to be in `to`.

    Raises `UnitError` if the text is no number, or its unit is unknown or of another dimension.

    >>> parse("4.8 TB/s", "GB/s")
    4800.0
    >>> parse("250", "ms")
    250.0
    """
    if is_token_unit(to):
        return float(parse_tokens(text, where=where, key=key))
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise UnitError(Fault(where, key, f"expected a number [{to}]", text))
    value = float(match[1].replace(",", "").replace("_", ""))
    return convert(value, match[2], to, where=where, key=key) if match[2] else value


def parse_tokens(value: str | float, *, where: str = "tokens", key: str = "") -> int:
    """Read a token count: ``32000``, ``"32k"`` (32,000) or ``"32Ki"`` (32,768).

    Raises `UnitError` for anything that is not a whole, finite number of tokens.

    >>> parse_tokens("32k"), parse_tokens("32Ki"), parse_tokens("19.4k")
    (32000, 32768, 19400)
    """
    number: float | None = None
    if isinstance(value, str):
        match = _TOKENS.fullmatch(value)
        if match is not None:
            number = float(match[1].replace(",", "").replace("_", "")) * _TOKEN_FACTORS[match[2]]
    elif not isinstance(value, bool):
        number = float(value)
    if number is None or not math.isfinite(number) or abs(number - round(number)) > 1e-6:
        raise UnitError(Fault(where, key, "expected a whole number of tokens, such as 32000, 32k or 32Ki", value))
    return round(number)


def show(value: float | None, unit: str = "", digits: int = 3) -> str:
    """Write a number with its unit, rounded to significant digits, never in exponent form below 1e15.

    >>> show(3.2468, "req/s")
    '3.25 req/s'
    >>> show(45046.2, "token")
    '45,046 tokens'
    >>> show(None, "s")
    '–'
    """
    if value is None:
        return "–"
    if is_token_unit(unit):
        return f"{round(value):,} tokens"
    text = _significant(value, digits)
    return f"{text} {unit}" if unit and unit != "1" else text


def _significant(value: float, digits: int) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    if decimals <= 0:
        return f"{value:,.0f}"
    if decimals > 12:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{decimals}f}"


def show_scaled(value: float, unit: str, digits: int = 3) -> str:
    """Write a value in base units with the decimal prefix that keeps it between 1 and 1000, where there is one.

    >>> show_scaled(4.8e12, "B/s", 4), show_scaled(700.0, "W")
    ('4.800 TB/s', '700 W')
    """
    for prefix in ("P", "T", "G", "M", "k"):
        scaled = UNITS.get(prefix + unit)
        if scaled is not None and abs(value) >= scaled.factor / UNITS[unit].factor:
            return show(value * UNITS[unit].factor / scaled.factor, prefix + unit, digits)
    return show(value, unit, digits)


def show_bytes(value: float) -> str:
    """Write a size in the decimal unit that keeps it between 1 and 1000.

    >>> show_bytes(4718592.0)
    '4.72 MB'
    """
    return show_scaled(value, "B")
