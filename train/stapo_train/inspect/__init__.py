"""Tools to inspect a training: dumped batches, one batch under several objectives, single tokens, stability."""
