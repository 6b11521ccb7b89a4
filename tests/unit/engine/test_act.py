"""What becomes of a word to a job's owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_guard.core import reason as reasons
from slurm_guard.core.errors import SlurmError
from slurm_guard.engine import act, settle
from slurm_guard.slurm.gateway import Gateway

from .test_late_actions import a_request, a_run

if TYPE_CHECKING:
    from pathlib import Path

WORD = {"job_id": 77, "text": "n1 was refused for this job"}


class Door(Gateway):
    """A Slurm that answers a request for a comment in one way."""

    def __init__(self, answer: bool | SlurmError) -> None:
        super().__init__()
        self.answer = answer

    def set_admin_comment(self, job_id: int | str, text: str, deadline: float = 3.0) -> bool:
        if isinstance(self.answer, SlurmError):
            raise self.answer
        return self.answer


def test_a_comment_that_was_not_written_claims_no_more_than_is_known() -> None:
    """Slurm may have one, or may have forgotten the job."""
    told = act.tell(Door(False), WORD)
    assert told.what == "held"
    assert "no longer knows the job" in told.why
    assert "has an admin comment" in told.why


def test_a_comment_that_was_written_needs_no_words() -> None:
    told = act.tell(Door(True), WORD)
    assert (told.what, told.why) == ("done", "")


def test_slurm_s_own_words_are_the_answer() -> None:
    told = act.tell(Door(SlurmError("it is busy")), WORD)
    assert (told.what, told.answer) == ("failed", "it is busy")


def test_the_words_to_an_owner_survive_slurm(tmp_path: Path) -> None:
    """Slurm's parsers bear no quotes and no semicolons, so these are dropped from what is written."""
    this = a_run(tmp_path)
    this.context.job_id = 4
    text = settle._word_to_user(this, a_request())["text"]
    assert reasons.clean(text, 500) == text
    assert text.endswith(". Not your fault. Ask your admins: sguard job 4")
