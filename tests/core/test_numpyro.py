"""NumPyro models as targets."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from posteriors import close, posterior, truth

from langevin.core import noise
from langevin.core.run import run
from langevin.core.target import Target
from langevin.samplers.sgld import SGLD
from langevin.targets import zoo
from langevin.targets.path import Geometric


def schools(sigma, y=None):
    import numpyro
    import numpyro.distributions as dist

    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("schools", sigma.shape[0]):
        t = numpyro.sample("t", dist.Normal(0.0, 1.0))
        theta = numpyro.deterministic("theta", mu + tau * t)
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def regression(x, y, batch):
    import numpyro
    import numpyro.distributions as dist

    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    s = numpyro.sample("s", dist.Gamma(2.0, 1.0))
    with numpyro.plate("data", x.shape[0], subsample_size=batch) as index:
        numpyro.sample("y", dist.Normal(x[index] @ w, s), obs=y[index])


def sliced(x):
    import numpyro
    import numpyro.distributions as dist

    m = numpyro.sample("m", dist.Normal(0.0, 1.0))
    with numpyro.plate("data", 100, subsample_size=10):
        numpyro.sample("x", dist.Normal(m, 1.0), obs=x)


def local(x):
    import numpyro
    import numpyro.distributions as dist

    with numpyro.plate("data", x.shape[0], subsample_size=2) as index:
        z = numpyro.sample("z", dist.Normal(0.0, 1.0))
        numpyro.sample("x", dist.Normal(z, 1.0), obs=x[index])


def test_numpyro_eight_schools(key):
    """NumPyro's model, its own log density, and the zoo's eight schools are the same function."""
    pytest.importorskip("numpyro")
    from numpyro.infer.util import potential_energy

    from langevin.targets.numpyro import from_numpyro

    own = zoo.EightSchools()
    target, position, constrain = from_numpyro(key, schools, own.sigma, y=own.y)
    assert isinstance(target, Target)
    expected = truth(lambda p: -potential_energy(schools, (own.sigma,), {"y": own.y}, p), position)
    there = jax.jit(lambda t, p: t.evaluate((), p))(target, position)
    close((there.log_density, there.grad), expected, 1e-6)
    renamed = {"mu": position["mu"], "log_tau": position["tau"], "t": position["t"]}
    np.testing.assert_allclose(there.log_density, jax.jit(own.log_density)(renamed), rtol=1e-5)
    x = jax.jit(constrain)(position)
    np.testing.assert_allclose(x["tau"], np.exp(position["tau"]), rtol=1e-5)
    np.testing.assert_allclose(x["theta"], x["mu"] + x["tau"] * x["t"], rtol=1e-5)


@pytest.mark.slow
def test_numpyro_subsampling(key):
    """Batches of one average to the exact density; parts halve a batch; draws differ; a run works."""
    pytest.importorskip("numpyro")
    from numpyro.infer.util import potential_energy

    from langevin.targets.numpyro import from_numpyro

    k_init, k_one, k_two, k_run = jax.random.split(key, 4)
    data = posterior().data
    target, position, constrain = from_numpyro(k_init, regression, data["x"], data["y"], 4)
    expected = truth(lambda p: -potential_energy(regression, (data["x"], data["y"], None), {}, p), position)
    close(truth(target.log_density, position), expected)
    evaluate = jax.jit(lambda batch: target.evaluate(batch, position))
    each = [evaluate((jnp.array([i]),)) for i in range(12)]
    mean = jax.tree.map(lambda *u: np.mean(np.stack(u).astype(np.float64), axis=0), *each)
    close((mean.log_density, mean.grad), expected)
    one, two = target.draw(k_one, ())[0], target.draw(k_two, (), fraction=0.5)[0]
    assert (one[0].shape, two[0].shape) == ((4,), (2,))
    assert int(evaluate(one).n_data) == 4
    halves = [evaluate(part) for part in target.parts(one, 2)]
    close(jax.tree.map(lambda u, v: (u + v) / 2, *halves)[:2], evaluate(one)[:2])
    assert jax.jit(constrain)(position)["s"] > 0
    with pytest.raises(ValueError, match="do not split into 3"):
        target.parts(one, 3)
    out = run(
        k_run, SGLD(step_size=1e-4), target, jax.tree.map(lambda u: jnp.stack([u, u]), position), draws=5, chunk=5
    )
    assert np.all(out.info.n_data == 4)


def test_numpyro_refusals(key):
    pytest.importorskip("numpyro")
    from langevin.targets.numpyro import from_numpyro

    k_one, k_two = jax.random.split(key)
    target, position, _ = from_numpyro(k_one, sliced, jnp.zeros(10))
    with pytest.raises(ValueError, match="exact log density is not available"):
        target.log_density(position)
    with pytest.raises(ValueError, match="lies inside the subsampled plate 'data'"):
        from_numpyro(k_two, local, jnp.zeros(10))


def test_keys_of_the_fast_generator_work(key):
    """Composite targets split any kind of key."""
    made = Geometric(posterior(batch=2), posterior(batch=3)).at(0.5)
    k_start, k_draw = jax.random.split(noise.key(1, impl="threefry"))
    for k_one, k_two in ((k_start, k_draw), jax.random.split(key)):
        batch, _ = jax.jit(lambda one, two: made.draw(two, made.start(one)))(k_one, k_two)
        assert [u.shape[0] for u in jax.tree.leaves(batch)] == [2, 2, 3, 3]
