r"""The probability flow dx/dt = F = f − ½ g² s, solved by Diffrax, alone or with its divergence.

Diffrax is imported here and nowhere else.

References
----------
Kidger (2022), On neural differential equations, §5 (Diffrax).
"""

from __future__ import annotations


def diffrax():
    """The module; a sentence where it is not installed."""
    try:
        import diffrax
    except ImportError as error:
        raise ImportError("diffusion: flows are solved by Diffrax; install langevin[diffusion].") from error
    return diffrax


def solved(field, state, begin, end, options):
    """The state at `end` of d state/dt = field(t, state), and the steps taken; options: rtol, atol, solver, most."""
    d = diffrax()
    solver = getattr(d, options.solver, None)
    if solver is None:
        raise ValueError(f"diffusion: Diffrax has no solver {options.solver!r}; take 'Tsit5', 'Dopri8' or 'Heun'.")
    result = d.diffeqsolve(
        d.ODETerm(lambda t, y, args: field(t, y)),
        solver(),
        begin,
        end,
        None,
        state,
        stepsize_controller=d.PIDController(rtol=options.rtol, atol=options.atol),
        saveat=d.SaveAt(t1=True),
        max_steps=options.most,
    )
    return [u[0] for u in result.ys] if isinstance(result.ys, (tuple, list)) else result.ys[0], result.stats


def flow_to_data(options, process, score, x, t):
    """x at t[-1] by the flow from t[0]."""

    def field(t, x):
        return process.drift(x, t) - 0.5 * process.spread(t, x) ** 2 * score(x, t)

    return solved(field, x, t[0], t[-1], options)[0]
