"""One objective a file: what a latent variable model is trained by, of the posteriors of a mini-batch."""
