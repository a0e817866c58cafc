"""
How do I spread chains over several processes?
==============================================

On a cluster each host runs a process of its own, and JAX makes one machine of them. This example does it on one
machine: two processes with two CPU devices each share eight chains. The draws must be those of a single process.
"""

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

# %%
# The program
# -----------
# Every process runs the same program. ``jax.distributed.initialize`` connects them; on many clusters it needs no
# arguments. ``lv.mesh`` takes all devices of all processes, and ``mesh=`` splits the chains over them. Each process
# gets all draws.

PROGRAM = """
import sys
import jax
processes, index, address, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
jax.config.update("jax_num_cpu_devices", 4 // processes)
if processes > 1:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, num_processes=processes, process_id=index)

import numpy as np
import langevin as lv

target = lv.targets.densities_2d()["moons"]
start = np.random.default_rng(0).normal(size=(8, 2)).astype("float32")
mesh = lv.mesh(chains=4)
posterior = lv.sample(lv.key(0), lv.MALA(0.004), target, start, draws=500, thin=20, mesh=mesh)
here = [device.process_index for device in mesh.devices.ravel()]
print(f"process {jax.process_index()} of {jax.process_count()}: devices of processes {here}")
np.savez(out, draws=posterior.draws, acceptance=posterior.info.acceptance, devices=np.array(here))
"""


def start(processes, index, address, out):
    """One process of the program."""
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"} | {"JAX_PLATFORMS": "cpu"}
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(processes), str(index), address, out], env=environment)


# %%
# Two processes, and one
# ----------------------

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    address = f"127.0.0.1:{free.getsockname()[1]}"
place = Path(tempfile.mkdtemp())
running = [start(2, index, address, place / f"{index}.npz") for index in (0, 1)]
running.append(start(1, 0, address, place / "alone.npz"))
codes = [process.wait(timeout=300) for process in running]
first, second, alone = (np.load(place / f"{name}.npz") for name in ("0", "1", "alone"))
difference = np.abs(first["draws"] - alone["draws"]).max()
print(f"largest difference of a draw between two processes and one: {difference:g}")

# %%
# The picture
# -----------
# The draws of the four chains that each process moved.

figure, axis = plt.subplots(figsize=(6, 3.6), layout="constrained")
owner = np.repeat(first["devices"], 2)  # eight chains over four devices
for process, color in ((0, "#0072B2"), (1, "#D55E00")):
    draws = first["draws"][owner == process].reshape(-1, 2)
    axis.plot(draws[:, 0], draws[:, 1], ".", color=color, markersize=2, alpha=0.5, label=f"chains of process {process}")
axis.set(xlabel="x₁", ylabel="x₂", aspect="equal")
axis.legend(fontsize="small", frameon=False, markerscale=4)
plt.show()

# %%
# What holds
# ----------
# Both processes succeed, both have all draws, half of the devices belong to each, and a single process with four
# devices gives the same draws to the last bit.

assert codes == [0, 0, 0]
assert first["devices"].tolist() == [0, 0, 1, 1]
assert first["draws"].shape == (8, 500, 2)
assert np.array_equal(first["draws"], second["draws"])
assert np.array_equal(first["draws"], alone["draws"])
assert 0.5 < first["acceptance"].mean() < 1
