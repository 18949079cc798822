"""The race: the same simulated data sets to our comparison and to others', each in an environment of its own."""
