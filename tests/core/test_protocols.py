"""Every target is a Target, and kernels refuse targets they cannot move on."""

import importlib
import inspect
import pkgutil
import warnings
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_target import PLAIN, log_likelihood, log_prior
from rows import ROWS

import langevin as lv
from langevin import vae, vi
from langevin.baselines.adam_sgld import AdamSGLD
from langevin.baselines.noise_scaled import NoiseScaled
from langevin.core import target as protocols
from langevin.core.kernel import Kernel, Wrapper, admit, registered
from langevin.core.target import Density, HasBatches, HasDensity, HasLikelihood, HasPrior, Target, examples, provides
from langevin.diffusion.annealed import Level, ScoreLevel
from langevin.energy.chains import Uniform
from langevin.energy.cooperative import Cooperative
from langevin.energy.energy import Energy
from langevin.energy.likelihood import EnergyLikelihood
from langevin.nets.bnn import bnn
from langevin.nets.mlp import MLP
from langevin.nets.priors import PRIORS
from langevin.samplers.psgld import PSGLD
from langevin.samplers.sgld import SGLD
from langevin.samplers.stanley import Stanley
from langevin.targets.bayes import Bayes
from langevin.targets.control_variates import control_variates
from langevin.targets.densities_2d import densities_2d
from langevin.targets.loss import Loss
from langevin.targets.noisy import Noisy
from langevin.targets.path import Annealed, Geometric
from langevin.targets.rotated import Rescaled, Rotated
from langevin.targets.stream import Stream
from langevin.targets.sum import Sum
from langevin.targets.tempered import Tempered
from langevin.targets.transformed import Positive, Transformed
from langevin.targets.zoo import Banana, EightSchools, Funnel, Gaussian, Mixture, Rings, Scales, Skew
from langevin.vae.chains import Scaled
from langevin.vi.quality import Together


def loss(key, position, rows):
    return (rows - jnp.sum(position)) ** 2


class Score:
    """∇log N(0, 1)."""

    def __call__(self, x, t):
        return -x

    def __hash__(self):
        return 1

    def __eq__(self, other):
        return isinstance(other, Score)


jax.tree_util.register_static(Score)


class Normal(Score):
    """The same, with its log density."""

    def log_density(self, x, t):
        return -0.5 * jnp.sum(x**2)


jax.tree_util.register_static(Normal)


DATA = jnp.arange(6.0)


SMALL = Bayes(log_prior, log_likelihood, DATA, batch=2)


WHOLE = Bayes(log_prior, log_likelihood, DATA)


TWO = jnp.zeros(2)


def quietly(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


def energies():
    build = lambda key, out: MLP((2, 4, out), key)
    energy = Energy.of(build(jax.random.key(0), 1), (2,))
    generator = build(jax.random.key(1), 2)
    weights, rest = eqx.partition(generator, eqx.is_inexact_array)
    points = jnp.zeros((8, 2))
    how = dict(steps=1, chains=4, batch=4, buffer=8)
    likelihood = EnergyLikelihood(energy, SGLD(0.1), points, Uniform(shape=(2,)), **how)
    both = Cooperative(energy, rest, SGLD(0.1), points, steps=1, batch=4)
    return {
        "energy": (energy, TWO),
        "likelihood": (likelihood, energy.weights),
        "cooperative": (both, (energy.weights, weights)),
        "sum": (Sum((likelihood,), (1.0,)), energy.weights),
    }


def targets():
    """name → (target, a position)."""
    plane = {f"2d-{name}": (density, jnp.full(2, 0.3)) for name, density in densities_2d().items()}
    zoo = {
        "gaussian": Gaussian(np.zeros(2), np.ones(2)),
        "banana": Banana(),
        "funnel": Funnel(),
        "mixture": Mixture(np.ones(2), np.zeros((2, 2)), np.ones((2, 2))),
        "rings": Rings(),
        "skew": Skew(),
        "scales": Scales(),
    }
    law = lambda kernel: quietly(kernel).law().density(PLAIN)
    one = {
        "density": PLAIN,
        "bayes": WHOLE,
        "batches": SMALL,
        "epochs": lv.replace(SMALL, order="epoch"),
        "tempered": Tempered(SMALL, 2.0),
        "tempered-likelihood": Tempered(SMALL, 2.0, "likelihood"),
        "between": Geometric(PLAIN, SMALL).at(0.5),
        "powered": Annealed(SMALL).at(0.5),
        "control variates": control_variates(SMALL, TWO),
        "transformed": Transformed(SMALL, Positive()),
        "noisy": Noisy(PLAIN, jnp.ones(2)),
        "rotated": Rotated(Gaussian(np.zeros(2), np.ones(2))),
        "rescaled": Rescaled(SMALL, 2.0),
        "loss": Loss(loss, DATA, batch=2),
        "total": Sum((PLAIN, SMALL), (1.0, 0.5)),
        "score": ScoreLevel(Score(), 1.0),
        "level": Level(Normal(), 1.0),
        "normal": lv.evidence.Normal(TWO, 1.0),
    }
    single = {
        "without-gamma": (law(partial(PSGLD, correction="none")), jnp.ones(1)),
        "slowed": (law(partial(Stanley, correction="none")), jnp.ones(1)),
        "faded": (law(partial(NoiseScaled, per="coordinate")), jnp.ones(1)),
        "pulled": (law(partial(AdamSGLD, momentum=0.0, decay=0.0)), jnp.ones(1)),
    }
    net = MLP((2, 2, 1), jax.random.key(0))
    models = {name: bnn(net, (jnp.zeros((4, 2)), jnp.zeros(4)), prior=name, noise=1.0) for name in PRIORS}
    priors = {f"prior-{name}": (model.prior, model.position) for name, model in models.items()}
    family = vi.MeanField()
    q = vi.Approximation(family, family.init(jax.random.key(0), TWO))
    fits = {
        "variational": (vi.Variational(SMALL, family), q.params),
        "approximation": (q, TWO),
        "together": (Together(jax.tree.map(lambda u: u[None], q)), TWO),
    }
    nets = vae.dense(jax.random.key(0), (3,), latent=2, hidden=(4,))
    ones = jnp.ones((4, 3))
    trained = vae.VAE(nets.model, nets.encoder, nets.weights | {"objective": ()})
    given = vae.dense(jax.random.key(0), (3,), latent=2, hidden=(4,), condition=2)
    classifier, program = eqx.partition(MLP((3, 2), jax.random.key(0)), eqx.is_inexact_array)
    few = vae.SemiSupervised(given.model, given.encoder, program, vi.ELBO(), (ones, jnp.zeros(4)), classes=2, batch=2)
    decoder = vae.DecoderPosterior(trained, ones, batch=2)
    latent = {
        "autoencoder": (vae.Autoencoder(nets.model, nets.encoder, vi.ELBO(), ones, batch=2), trained.weights),
        "decoder posterior": (decoder, {"decoder": nets.weights["decoder"]}),
        "semi-supervised": (few, given.weights | {"classifier": classifier, "objective": ()}),
        "latent posterior": (trained.posterior(ones[0]), TWO),
        "scaled": (Scaled(trained.posterior(ones[0]), TWO, TWO), TWO),
    }
    schools = dict(mu=jnp.zeros(()), log_tau=jnp.zeros(()), t=jnp.zeros(8))
    return (
        {name: (t, t.mean) for name, t in zoo.items()}
        | {name: (t, TWO) for name, t in one.items()}
        | single
        | plane
        | energies()
        | priors
        | fits
        | latent
        | {"schools": (EightSchools(), schools)}
    )


TARGETS = targets()


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_is_a_target(name, key):
    """It has the three members, its estimate has the shapes of the position, and its capabilities keep their word."""
    target, position = TARGETS[name]
    assert isinstance(target, Target)
    assert isinstance(target.stochastic, bool)
    k_start, k_eval = jax.random.split(key)
    feed = jax.eval_shape(target.start, k_start)
    evaluation, after = jax.eval_shape(target.estimate, k_eval, feed, position)
    assert evaluation.log_density.shape == evaluation.n_data.shape == ()
    same = lambda a, b: jax.tree.all(jax.tree.map(lambda u, v: u.shape == v.shape and u.dtype == v.dtype, a, b))
    assert same(evaluation.grad, position)
    assert same(feed, after)
    if provides(target, HasDensity):
        assert jax.eval_shape(target.log_density, position).shape == ()
    if provides(target, HasBatches):
        batch, _ = jax.eval_shape(target.draw, k_start, feed)
        assert jax.eval_shape(target.evaluate, batch, position).log_density.shape == ()
    if provides(target, HasPrior):
        assert jax.eval_shape(target.prior, position).shape == ()


def test_the_list_above_has_every_target_of_the_package():
    package = importlib.import_module("langevin")
    modules = [m.name for m in pkgutil.walk_packages(package.__path__, "langevin.") if not m.name.endswith("__main__")]
    made = {type(t) for t, _ in TARGETS.values()}
    abstract = {c for c in vars(protocols).values() if inspect.isclass(c)} - {Density}
    found = set()
    for module in map(importlib.import_module, modules):
        found |= {c for c in vars(module).values() if inspect.isclass(c) and c.__module__ == module.__name__}
    concrete = {c for c in found if "estimate" in dir(c) and c not in abstract and c is not Stream}
    elsewhere = {c for c in concrete if c.__module__.startswith(("langevin.evidence", "langevin.targets.numpyro"))}
    bases = {c for c in concrete if "Abstract" in (c.__doc__ or "")}
    assert concrete - made - elsewhere - bases == set()


def test_a_target_can_do_what_those_it_is_made_from_can():
    assert provides(Tempered(SMALL), HasPrior)
    assert not provides(Tempered(PLAIN), HasPrior)
    assert provides(Tempered(PLAIN), HasDensity)
    assert not provides(TARGETS["sum"][0], HasDensity)
    assert not provides(TARGETS["likelihood"][0], HasDensity)
    assert not provides(TARGETS["score"][0], HasDensity)
    assert provides(SMALL, HasLikelihood)
    assert not provides(control_variates(SMALL, TWO), HasLikelihood)
    assert examples(Tempered(control_variates(SMALL, TWO))) == 6
    assert not TARGETS["total"][0].targets[0].stochastic
    assert TARGETS["total"][0].stochastic


def exact_kernels():
    return [name for name, row in ROWS.items() if row.kernel.requires is HasDensity]


def test_every_kernel_has_the_one_base_class():
    assert all(issubclass(cls, Kernel) for cls in registered().values())
    assert all(isinstance(row.kernel, Kernel) for row in ROWS.values())
    assert {"hmc", "mala", "nuts", "mams", "ghmc", "amala", "tmala", "stanley"} <= set(exact_kernels())


@pytest.mark.parametrize("name", exact_kernels())
def test_a_kernel_that_needs_the_exact_density_refuses_mini_batches(name):
    kernel = ROWS[name].kernel
    for target in (SMALL, Tempered(SMALL, 2.0), Noisy(PLAIN, jnp.ones(2))):
        with pytest.raises(ValueError, match=r"needs the exact density, but the target estimates it from mini-batches"):
            lv.run(lv.key(0), kernel, target, np.zeros((2, 2), np.float32), draws=1)
    with pytest.raises(TypeError, match="a target with an exact log_density"):
        admit(kernel, TARGETS["score"][0])
    admit(kernel, WHOLE)


def test_wrappers_ask_for_what_the_kernel_inside_asks():
    for row in ROWS.values():
        if isinstance(row.kernel, Wrapper):
            assert row.kernel.requires is row.kernel.kernel.requires
    with pytest.raises(ValueError, match="HMC needs the exact density"):
        lv.run(lv.key(0), lv.samplers.Thin(lv.HMC(0.1)), SMALL, np.zeros((2, 2)), draws=1)


def test_a_run_carries_its_kernel_and_target():
    halve = lambda p: p._replace(kernel=lv.replace(p.kernel, step_size=0.5 * float(p.kernel.step_size)))
    out = lv.run(lv.key(0), SGLD(0.1), PLAIN, np.zeros((2, 2), np.float32), draws=2, chunk=1, callbacks=(halve,))
    assert float(out.kernel.step_size) == pytest.approx(0.025)
    assert out.target is PLAIN
