"""Each decode step processes the whole sequence again: there is no KV cache.

What it measures:
    How many tokens of one sequence each decode step processes: as the capture noted it at the
    model's forward, else by the shapes of attention or of the token look-up.

Why it costs time:
    With cached keys and values a step processes one token. Without, step n processes all n tokens,
    so that generating n tokens costs work of the order n², and every step is longer than the one
    before. At short lengths a launch-bound loop hides it; later nothing does.

Thresholds:
    Lengths that only rise over three steps: speculative decoding varies how many tokens a step
    takes, up and down.

What to do:
    Keep each layer's keys and values and pass only the new token: use_cache=True with
    past_key_values in transformers, a static cache in a model of your own.

When to ignore it:
    When each step really needs all positions anew, as in diffusion-style decoding.
"""

from __future__ import annotations

from itertools import pairwise

from decodeprof import units
from decodeprof.analysis.shapes import query_lengths
from decodeprof.diagnosis import gates, telling
from decodeprof.diagnosis.judging import Case, Clear, CouldNotTell, Found, Outcome
from decodeprof.model.diagnosis import Recommendation

CODE = "no-kv-cache"
TITLE = "each step processes the whole sequence again"

FEWEST_STEPS = 3


def judge(case: Case) -> Outcome:
    """Find query lengths that rise from step to step."""
    lengths = _lengths(case)
    if not lengths:
        missing = gates.unable(case, "device")
        if missing is not None:
            return missing
    if lengths and max(lengths) == 1:
        return Clear()
    if len(lengths) < FEWEST_STEPS:
        step = case.diagnosis.step
        if step is not None and step.graph_launches == 1 and not step.launches:
            # One graph, replayed: the same shapes in every step.
            return Clear()
        return CouldNotTell(
            reason="how many tokens each step processes is not known",
            capture=gates.PROFILE,
        )
    if any(after <= before for before, after in pairwise(lengths)):
        return Clear()
    first, last = lengths[0], lengths[-1]
    found = telling.finding(
        case,
        CODE,
        f"Each decode step processes the whole sequence: {units.counted(first, 'token')} in the "
        f"first step seen, {last} in the last, where 1 would do.",
        evidence=[
            telling.measured(
                f"tokens of one sequence in {units.counted(len(lengths), 'consecutive step')}: "
                f"{first} to {last}"
            ),
            telling.derived(
                f"{units.counted(sum(lengths), 'token was', 'tokens were')} processed to make "
                f"{len(lengths)}: work grows with the square of the length"
            ),
        ],
        advice=[
            Recommendation(
                what="Keep keys and values between steps, and pass only the new token",
                how="use_cache=True and past_key_values in transformers; in a model of your own, "
                "write each layer's new keys and values into a buffer of fixed size with "
                "index_copy_ and let attention read the valid part",
                verify=telling.again(case, look="query length 1 in every decode step"),
                risk="positions and masks must count from the start of the sequence, not of the "
                "step: compare the tokens of both loops",
            )
        ],
    )
    return Found((found,))


def _lengths(case: Case) -> list[int]:
    """Tokens of one sequence in each decode step, as noted at the forward, else by shapes.

    The former needs no device: a run on a CPU tells as well.
    """
    noted = [row.query_length for row in case.diagnosis.steps.rows if row.phase == "decode"]
    known = [length for length in noted if length is not None]
    if known and len(known) == len(noted):
        return known
    traffic = case.evidence.traffic
    return [] if traffic is None else list(query_lengths(traffic, case.evidence.steps).values())
