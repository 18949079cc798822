"""Estimates of the memory, time and GPU-hours of a training or an evaluation from the shape of the model."""
