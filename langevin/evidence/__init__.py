"""Evidence: log Z of a model, its error, its bounds and what they are worth, in one call."""
