"""An exception as one sentence and an exit code: 2 for what the user can mend, 70 for a defect of the library.

What the library raises deliberately is a sentence already. What the system raises (a full disk, a folder in place of a
file, no memory, a missing package) is worded here. In a script of the user's the file and the line are named. All else
is a defect: it is said so, with where it happened and how to see the traceback.
"""

from __future__ import annotations

import errno
import sysconfig
import traceback
import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

MINE, OURS = 2, 70
DEBUG = "LANGEVIN_DEBUG"
PACKAGES = ("langevin", "langevin_lab")
REASONS = {
    errno.ENOSPC: "the disk is full; make room and run it again",
    errno.EDQUOT: "the disk quota is used up; make room and run it again",
    errno.EACCES: "permission denied; choose a place that you may read and write",
    errno.EPERM: "permission denied; choose a place that you may read and write",
    errno.EROFS: "the file system is read-only; choose another place",
    errno.EISDIR: "it is a folder; name a file",
    errno.ENOTDIR: "a part of the path is a file and no folder; name another path",
    errno.EEXIST: "it is there already, and no folder can be made of that name; name another path",
    errno.ENOENT: "there is no such file or folder",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ELOOP: "it is a symbolic link, which is not followed",
}


class Explained(NamedTuple):
    """What to print, and the exit code."""

    sentence: str
    code: int


def explain(error: BaseException) -> Explained:
    """The sentence and the exit code of an exception that reached the end of a command."""
    words = " ".join(str(error).split())
    if isinstance(error, OSError) and not _is_raised(error):
        return Explained(_of_system(error, words), MINE)
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in words:
        return Explained("there is not enough memory; take fewer rows, chains or draws, or a smaller network.", MINE)
    if isinstance(error, (zipfile.BadZipFile, zlib.error, EOFError)):
        return Explained(f"a file is damaged or no archive at all ({words or type(error).__name__}).", MINE)
    if isinstance(error, UnicodeDecodeError):
        return Explained(f"a file is no text in UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8.", MINE)
    script = _script(error)
    if script is not None:
        hint = f"; {DEBUG}=1 shows the traceback."
        return Explained(f"{script.filename}, line {script.lineno}: {type(error).__name__}: {words}{hint}", MINE)
    if isinstance(error, ImportError) and not _is_raised(error):
        return Explained(f"a package cannot be imported ({words}); install it, or a version that fits.", MINE)
    if isinstance(error, ValueError) or _is_raised(error):
        return Explained(words or f"{type(error).__name__} without a word.", MINE)
    return Explained(_of_defect(error, words), OURS)


def _of_system(error: OSError, words: str) -> str:
    path = error.filename2 or error.filename  # of a move the place it was to go to
    name = f"{path}: " if path else ""
    return f"{name}{REASONS.get(error.errno or 0, error.strerror or words or type(error).__name__)}."


def _of_defect(error: BaseException, words: str) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _package(frame.filename)]
    where = f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    what = f"{type(error).__name__}{where} ({words[:200] or 'no message'})"
    return (
        f"a defect of langevin, and no mistake of yours: {what}; "
        f"{DEBUG}=1 shows the traceback, which is worth reporting."
    )


def _is_raised(error: BaseException) -> bool:
    """Whether the library raised it deliberately: the last line run is a `raise` of its own."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and _package(frames[-1].filename) and (frames[-1].line or "").lstrip().startswith("raise")


def _package(filename: str) -> bool:
    here = Path(__file__).resolve().parent.parent
    path = Path(filename)
    return here in path.resolve().parents or any(name in path.parts for name in PACKAGES[1:])


def _script(error: BaseException) -> traceback.FrameSummary | None:
    """The last frame in a file of the user's: of no installed package, not of Python and not of the library."""
    own = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]

    def is_users(filename: str) -> bool:
        foreign = filename.startswith("<") or "site-packages" in filename or any(filename.startswith(p) for p in own)
        return not foreign and not _package(filename) and Path(filename).suffix == ".py"

    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename)]
    return frames[-1] if frames else None
