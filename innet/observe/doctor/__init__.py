"""Diagnoses a running network: what is wrong, and what to do, in sentences.

* ``observation``: two looks at a run, some time apart, and the differences;
* ``finding``: one problem;
* ``checks``: one class for each kind of problem.
"""

from innet.observe.doctor.checks import examine, needs_longer_look
from innet.observe.doctor.finding import Finding, FindingGroup, grouped
from innet.observe.doctor.observation import Observation

__all__ = ["Finding", "FindingGroup", "Observation", "examine", "grouped", "needs_longer_look"]
