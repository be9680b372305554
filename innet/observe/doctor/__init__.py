"""Looks at a running network and says in sentences what is wrong, and what to do.

* ``observation``: two looks at a run, some time apart, and what lies between them;
* ``observing``: how they are taken;
* ``finding``: one thing that is wrong;
* ``checks``: what is looked for, one class each.
"""

from innet.observe.doctor.checks import examine
from innet.observe.doctor.finding import Finding, FindingGroup, grouped
from innet.observe.doctor.observation import Observation

__all__ = ["Finding", "FindingGroup", "Observation", "examine", "grouped"]
