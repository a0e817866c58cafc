"""The command line, `langevin`: fit, predict, report, compare, evidence, audit, kernels, cite, bench, reproduce."""

from __future__ import annotations

import os
import signal
import warnings
from typing import Annotated

import typer

from langevin.cli import errors, evidence, figures, fit, models, samplers
from langevin.cli.shared import fail, say, terminate

app = typer.Typer(
    help="Bayesian computation for deep learning: samplers that say what they converge to.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        from langevin import __version__

        typer.echo(f"langevin {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Bayesian computation for deep learning: samplers that say what they converge to."""


_more = {"allow_extra_args": True, "ignore_unknown_options": True}  # a kernel's own fields
app.command(context_settings=_more)(fit.fit)
app.command()(models.predict)
app.command()(models.report)
app.command()(models.compare)
app.command()(evidence.evidence)
app.command(context_settings=_more)(samplers.audit)
app.command()(samplers.kernels)
app.command()(samplers.cite)
app.command("bench")(figures.bench)
app.command("reproduce")(figures.reproduce)


def main(words: list[str] | None = None) -> None:
    """The entry point: an error is one sentence, with exit code 2 for a mistake and 70 for a defect of ours."""
    signal.signal(signal.SIGTERM, terminate)
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: say(f"! {message}", error=True)
        try:
            app(words, standalone_mode=True)
        except KeyboardInterrupt:
            say("\nlangevin: interrupted.", error=True)
            raise SystemExit(130) from None
        except Exception as error:
            if os.environ.get(errors.DEBUG):
                raise
            told = errors.explain(error)
            fail(told.sentence, code=told.code)
