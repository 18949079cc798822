"""Which small changes of the code no test notices; ``scripts/mutation.sh`` runs it in an environment of its own."""
