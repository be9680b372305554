"""What ``pagerank.py`` and ``wordcount.py`` share: they compare places to combine pairs by key."""
