"""A long training on real processes in network namespaces, with random faults all the time.

``python -m tests.soak --minutes 30 --seed 7``. ``faults`` draws what happens from the seed,
``infliction`` does it, ``memory`` looks at the processes meanwhile and judges whether they grow,
and ``run`` puts them together. The job itself is ``workers/training.py``.
"""
