"""Graders, one module each; ``stapo_bench.grading.registry`` knows them by name and says what such a module holds."""
