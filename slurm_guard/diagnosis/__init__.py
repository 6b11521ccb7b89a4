"""What was wrong with a run of a job: whose fault, how sure, is it safe to resubmit, and what to do next."""

from __future__ import annotations

from slurm_guard.diagnosis.accounting import Told, not_on_record, told_by
from slurm_guard.diagnosis.coverage import Missing, missing_runs
from slurm_guard.diagnosis.evidence import Evidence
from slurm_guard.diagnosis.verdict import Verdict, diagnose

__all__ = ["Evidence", "Missing", "Told", "Verdict", "diagnose", "missing_runs", "not_on_record", "told_by"]
