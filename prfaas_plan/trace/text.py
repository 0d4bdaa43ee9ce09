"""Lines of text from a plain or gzip file, whatever is wrong with it."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Generator
from pathlib import Path

from prfaas_plan.errors import Fault, TraceError

__all__ = ["open_lines"]

_GZIP = b"\x1f\x8b"
_PACKED = {
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"PAR1": "parquet",
    b"\x93NUMPY": "NumPy",
    b"ARROW1": "Arrow",
}
_POINTER = b"version https://git-lfs"


def open_lines(path: Path, dropped: dict[str, int]) -> Generator[str, None, None]:
    """Give the lines of a text file, unpacked if it is gzip; where the data break off is noted in `dropped`.

    Raises `OSError` if the file cannot be opened, and `TraceError` if it is no text.
    """
    with path.open("rb") as raw:
        head = raw.read(4)
        raw.seek(0)
        stream = gzip.GzipFile(fileobj=raw) if head.startswith(_GZIP) else raw
        yield from _text_lines(stream, str(path), dropped)


def _text_lines(
    stream: gzip.GzipFile | io.BufferedReader, where: str, dropped: dict[str, int]
) -> Generator[str, None, None]:
    started = False
    try:
        start = _peek(stream)
        _check_text(start, where)
        encoding = "utf-16" if start[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        started = True
        with io.TextIOWrapper(stream, encoding=encoding, errors="replace", newline="") as text:
            yield from text
    except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
        if not started:
            raise TraceError(Fault(where, "", f"is a broken gzip file: {problem}")) from None
        dropped["rest of the file lost: compressed data break off"] = 1


def _peek(stream: gzip.GzipFile | io.BufferedReader) -> bytes:
    try:
        return stream.read1(4096)
    finally:
        stream.seek(0)


def _check_text(start: bytes, where: str) -> None:
    for mark, name in _PACKED.items():
        if start.startswith(mark):
            raise TraceError(Fault(where, "", f"is a {name} file; unpack or convert it to CSV or JSON lines"))
    if start.startswith(_POINTER):
        raise TraceError(Fault(where, "", "is a Git LFS pointer, not the data: fetch the file with git lfs pull"))
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return
    controls = sum(byte < 9 or 13 < byte < 32 for byte in start)
    if b"\x00" in start or controls > len(start) // 20:
        raise TraceError(Fault(where, "", "is binary, not text"))
