"""Where silencing matters: the mechanism by itself, in a policy without a network; docs/mechanism.md.

python -m stapo_train.experiments.mechanism                 # every run that is not there yet, then the page
python -m stapo_train.experiments.mechanism --predictions   # what was predicted, before any run
"""
