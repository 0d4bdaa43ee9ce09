"""Results as rows: what notebooks, pandas and polars take, without depending on any of them."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from prfaas_plan.texts import printable

__all__ = ["Tabular", "flatten"]

_LISTS = ("rows", "deployments")
_MOST_ROWS = 200
_MOST_SHOWN = 8


class Tabular:
    """A result that can be had as flat records; every result of this package is one.

    A class that mixes this in has ``to_dict()``; pandas and polars take ``pandas.DataFrame(result.to_rows())``.
    """

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Give the result under the keys of the interface."""
        raise NotImplementedError

    def __repr__(self) -> str:
        scalars = [(k, v) for k, v in flatten(self.to_dict()).items() if v is not None and not isinstance(v, bool)]
        shown = ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in scalars[:_MOST_SHOWN])
        return f"<{type(self).__name__} {shown}>"

    def to_rows(self) -> list[dict[str, Any]]:
        """Give flat records with one set of keys: one for each row or deployment, or one for the whole result.

        >>> class Two(Tabular):
        ...     def to_dict(self):
        ...         return {"rows": [{"a": 1}, {"a": 2, "b": {"c": 3}}]}
        >>> Two().to_rows()
        [{'a': 1, 'b_c': None}, {'a': 2, 'b_c': 3}]
        """
        data = self.to_dict()
        found = next((data[name] for name in _LISTS if name in data), [data])
        flat = [flatten(row) for row in found]
        keys = list(dict.fromkeys(key for row in flat for key in row))
        return [{key: row.get(key) for key in keys} for row in flat]

    def _repr_html_(self) -> str:
        """Show the rows as an HTML table, as notebooks do; texts cannot become markup."""
        rows = self.to_rows()
        shown = rows[:_MOST_ROWS]
        keys = list(rows[0]) if rows else []
        if len(rows) == 1:
            body = "".join(f"<tr><th>{_cell(k)}</th><td>{_cell(v)}</td></tr>" for k, v in rows[0].items())
            return f"<table>{body}</table>"
        head = "".join(f"<th>{_cell(k)}</th>" for k in keys)
        body = "".join("<tr>" + "".join(f"<td>{_cell(row[k])}</td>" for k in keys) + "</tr>" for row in shown)
        more = f"<p>{len(rows) - len(shown):,} more rows</p>" if len(rows) > len(shown) else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return html.escape(f"{value:,.6g}" if isinstance(value, float) else printable(str(value)))


def flatten(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Turn nested records into one flat record, joining keys with an underscore and leaving lists out.

    >>> flatten({"ttft_s": {"mean": 2.2}, "pools": [1]})
    {'ttft_s_mean': 2.2}
    """
    flat: dict[str, Any] = {}
    for key, value in data.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{name}_")
        elif not isinstance(value, (list, tuple)):
            flat[name] = value
    return flat
