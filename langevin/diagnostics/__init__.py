"""What a run was worth: convergence of chains, calibration of predictions, kinds of uncertainty."""
