"""Targets made from targets: posteriors, tempering, paths, constraints, control variates, and a zoo of exact truths."""
