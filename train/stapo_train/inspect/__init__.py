"""A look inside a training: dumped batches, the same batch under every objective, single tokens, stability."""
