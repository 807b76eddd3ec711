"""Compaction: of records with the same key only the newest stays (`cleanup.policy=compact`).

    policy ──► job (plain data) ──► rewriting (files only, another process) ──► swapping (in the live log)

`policy` decides what is to be cleaned and how far. `rewriting` reads the segments and writes new ones beside
them, named `.cleaned`; it knows nothing but files, so it runs in a process of its own and the broker's event
loop does not notice. `swapping` puts the new segments in the place of the old ones, by renames that a start
after a crash finishes or takes back (`odradek.log.startup.partition_folder`).

Invariants: offsets never change; the newest record of a key stays, up to the bound of a pass everything
older of that key goes; a batch's offsets, sequences, epoch and timestamps type stay what they were.
"""

from odradek.log.cleaner.job import CleanJob, CleanResult, Source
from odradek.log.cleaner.policy import CleanRange, clean_range, make_job
from odradek.log.cleaner.rewriting import run
from odradek.log.cleaner.swapping import discard, swap_in

__all__ = [
    "CleanJob",
    "CleanRange",
    "CleanResult",
    "Source",
    "clean_range",
    "discard",
    "make_job",
    "run",
    "swap_in",
]
