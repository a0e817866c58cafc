"""Energy-based models: p ∝ e^{f/T}, trained by samplers that can be trusted, or without any.

`energy` has the model, `likelihood` training by chains (CD, persistent, short-run, replay), `losses` training without
them, `cooperative` a generator beside it, `jem` classifiers that are energies, `watch` what to look at meanwhile.
"""
