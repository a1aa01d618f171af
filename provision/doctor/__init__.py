"""Diagnosis of a log, an environment, a repository or a machine."""

from provision.doctor.logs import diagnose_evidence, diagnose_log

__all__ = ["diagnose_evidence", "diagnose_log"]
