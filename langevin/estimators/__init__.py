"""scikit-learn estimators: the front door for tables."""
