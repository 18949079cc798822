"""Whether an objective is what its authors wrote: against a slow reference, finite differences, the trainer itself."""
