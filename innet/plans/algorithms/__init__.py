"""One file per algorithm; an algorithm is a placement of rules, nothing else.

Each maker takes ``(topology, ranks, **options)`` and returns a :class:`~innet.plans.plan.Plan`; it
is registered under its user-visible name in :mod:`innet.plans.registry`.
"""
