"""The folder of a fit, from its first step to the finished model: what was asked for, and who may go on with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from langevin.cli.shared import fail, say


class Place:
    """The folder given by --out, held until the command ends. Without one nothing is kept.

    asked: what decides the draws, {option: value}; that of the fit that is gone on with, if there is one.
    """

    def __init__(self, context: typer.Context, out: Path | None, asked: dict[str, Any], *, resume: bool):
        self.out, self.asked = out, asked
        if out is None:
            if resume:
                fail("fit: --resume needs --out, the folder of the interrupted fit.")
            return
        from langevin.report import folder

        context.call_on_close(folder.lock(out).acquire().release)
        folder.recover(out)
        found = folder.read_asked(out)
        if found is None:
            self._check_free(out, resume=resume)
        else:
            self._go_on(context, found, resume=resume)

    def _check_free(self, out: Path, *, resume: bool) -> None:
        from langevin.report import folder

        there = out.exists() and (not out.is_dir() or any(f.name != folder.UNFINISHED for f in out.iterdir()))
        if resume and not there:
            fail(f"fit: there is no unfinished fit in {out}; start it without --resume.")
        if resume:
            fail(f"fit: the fit in {out} is finished; there is nothing to resume.")
        if there:
            fail(f"fit: the folder {out} is not empty; choose another for --out.")

    def _go_on(self, context: typer.Context, found: dict[str, Any], *, resume: bool) -> None:
        """What was asked for at first holds; an option that says otherwise is refused."""
        typed = lambda name: getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
        given = lambda name: bool(self.asked[name]) if name == "fields" else typed(name)
        other = [n for n in self.asked if found.get(n) != self.asked[n] and (given(n) or not resume)]
        if other:
            flags = " and ".join("the kernel's options" if n == "fields" else f"--{n.replace('_', '-')}" for n in other)
            fail(
                f"fit: {self.out} holds an unfinished fit begun with another value of {flags}; use the same, or "
                "another folder for --out."
            )
        self.asked = self.asked | found
        say(f"Going on with the unfinished fit in {self.out}.", error=True)

    def begin(self) -> Path | None:
        """Write down what was asked for; where the stages of the fit are kept while it runs."""
        from langevin.report import folder

        if self.out is None:
            return None
        folder.write_asked(self.out, self.asked)
        return folder.stages(self.out)

    def abandon(self) -> None:
        """Remove what was begun by a fit that was refused before its first step."""
        from langevin.core.files import remove
        from langevin.report import folder

        if self.out is not None and not (folder.stages(self.out) / "train").exists():
            remove(self.out / folder.UNFINISHED)
            if self.out.is_dir() and not any(self.out.iterdir()):
                self.out.rmdir()

    def tell_stopped(self, stage: str, how: str) -> None:
        """Say what is kept of a fit that ended in this stage."""
        doing = {"train": "training", "tune": "tuning", "sample": "sampling", "score": "scoring"}.get(stage, "reading")
        if self.out is None:
            kept = "nothing is kept. With --out FOLDER a fit can be gone on with"
        else:
            kept = f"what is done is kept in {self.out}, and the same command goes on with it"
        say(f"\nlangevin: {how} while {doing}; {kept}.", error=True)
