"""Texts from files and users, made harmless for whatever shows them."""

from __future__ import annotations

import unicodedata

__all__ = ["is_printable", "printable"]

_HARMLESS = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"}
_HARMLESS |= {"Sm", "Sc", "Sk", "So", "Zs"}


def printable(text: str) -> str:
    r"""Replace control and direction-changing characters, which could rewrite a terminal or a page.

    >>> printable("a\x1b[31mb\u202ec\n")
    'a�[31mb�c '
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(character) for character in text)


def _shown(character: str) -> str:
    if character in "\n\r\t":
        return " "
    return character if is_printable(character) else "\ufffd"


def is_printable(character: str) -> bool:
    """Say whether a character only shows itself: no control, format, private or unassigned one."""
    return unicodedata.category(character) in _HARMLESS
