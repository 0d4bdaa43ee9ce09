"""Text files: read with clear errors, written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from prfaas_plan.errors import Fault, InputError

__all__ = ["read_text", "write_atomically"]


def write_atomically(path: str | Path, content: str | bytes) -> None:
    """Replace a file in one step: whoever reads it finds the old content or the new, never a part.

    Raises `InputError` naming the file if it cannot be written.
    """
    target = Path(path)
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        if target.is_dir():
            raise IsADirectoryError(0, "is a folder, not a file")
        if target.exists() and not target.is_file():
            target.write_bytes(data)  # a device or a pipe: nothing there to keep
            return
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
        handle, temporary = tempfile.mkstemp(dir=target.resolve().parent, prefix=f".{target.name}.")
    except OSError as problem:
        raise InputError(Fault("--output", "", problem.strerror or "cannot be written", str(path))) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(temporary).chmod(mode)
        Path(temporary).replace(target.resolve())
    except OSError as problem:
        Path(temporary).unlink(missing_ok=True)
        raise InputError(Fault("--output", "", problem.strerror or "cannot be written", str(path))) from None


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def read_text(path: str | Path) -> str:
    """Read a text file, with or without a byte-order mark.

    Raises `InputError` naming the file if it cannot be read or is not UTF-8.
    """
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise InputError(Fault(str(path), "", problem.strerror or "cannot be read")) from None
    except UnicodeDecodeError as problem:
        raise InputError(Fault(str(path), "", f"is not UTF-8 text (byte {problem.start})")) from None
