"""A byte-level GPT, and the ways to train it on several ranks; ``train_gpt.py`` is the program."""
