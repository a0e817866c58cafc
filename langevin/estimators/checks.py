"""What scikit-learn asks of inputs: rows in numbers or as a frame, the same columns at every call, one length."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import _check_sample_weight, validate_data

from langevin.estimators.columns import merged, names_of, raw_columns


class Checked:
    """Checks of tables, for an estimator."""

    several = False  # whether y may have several columns

    def _checked(self, X, y, *, reset: bool = True):
        """Rows and targets, in numbers or as a frame, of one length."""
        named = [str(name) for name in y.columns] if hasattr(y, "columns") else []
        if hasattr(X, "columns"):
            names_of(X)
            validate_data(self, X, skip_check_array=True, reset=reset)
            X, y = X.reset_index(drop=True), np.asarray(y)
            if len(X) != len(y):
                raise ValueError(f"X has {len(X)} rows but y {len(y)}.")
        else:
            X, y = validate_data(
                self, X, y, dtype=np.float64, ensure_all_finite="allow-nan", multi_output=self.several, reset=reset
            )
        y = self._checked_y(y, reset)
        if reset and self.several:
            self.targets_ = named or [f"y{i}" for i in range(y.shape[1] if y.ndim == 2 else 1)]
        return X, y

    def _checked_y(self, y, reset: bool):
        raise NotImplementedError

    def _checked_rows(self, X):
        if hasattr(X, "columns"):
            validate_data(self, X, skip_check_array=True, reset=False)
            return X
        return validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.multi_output = self.several
        return tags

    def _table(self, X, y, sample_weight, *, reset: bool = True) -> tuple[list, np.ndarray, np.ndarray]:
        """Raw columns, targets and weights: equal rows merged, in an order of their own."""
        X, y = self._checked(X, y, reset=reset)
        weight = np.array(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))
        return merged(raw_columns(X), y, weight)
