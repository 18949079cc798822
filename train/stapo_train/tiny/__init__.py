"""The tiny suite's base model from nothing: its data, its tokenizer, its pretraining."""
