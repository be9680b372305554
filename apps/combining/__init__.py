"""Parts of ``pagerank.py`` and ``wordcount.py``, which compare places to combine pairs by key."""
