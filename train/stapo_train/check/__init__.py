"""Checks that an objective is computed as published: against a slow reference, finite differences and the trainer."""
