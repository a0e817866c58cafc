"""Ten small models with 10,000 trusted draws each: what `langevin bench references` measures samplers against.

    from langevin_lab.references import models, trusted
    model, draws = models()["funnel"], trusted("funnel")      # a target, and draws (10000, k) of model.values

`make references` draws them anew (`make.py`); `tests/lab/test_references.py` compares them with posteriordb.
"""

from langevin_lab.references.models import Model, models
from langevin_lab.references.stored import trusted

__all__ = ["Model", "models", "trusted"]
