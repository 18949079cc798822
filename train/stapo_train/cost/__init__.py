"""What a training or an evaluation takes: memory, time and GPU-hours, by the shape of the model."""
