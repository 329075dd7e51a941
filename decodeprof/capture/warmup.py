"""The first pass: warm up, find where steps begin, count tokens, see whether calls are alike.

The first call runs with nothing attached, so that what it compiles and captures is what the user
gets.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch

from decodeprof import units
from decodeprof.capture import about
from decodeprof.capture.arguments import fingerprint
from decodeprof.capture.find_steps import StepFinder
from decodeprof.capture.session import PHASES, Called, Session
from decodeprof.capture.tokens import UNCLEAR_LISTS, YIELDED_LISTS, Counted, count
from decodeprof.capture.watch import NO_SHAPE, Counter, Shape
from decodeprof.recording import PassReport
from decodeprof.recording import Target as TargetInfo

_AGREEMENT_SHARE = 0.2
"""Two successive calls this close to each other are warm."""
_MAX_CALLS = 7
_BUDGET_NS = 60_000_000_000
"""No further call is made for the sake of agreement after so long."""
_TOKEN_WORDS = ("token", "step", "len", "num", "max", "new", "count")
_BATCH_WORDS = ("batch", "rows", "sequences", "seqs", "bsz")
_BATCH_NAMES = ("b", "bs")


def warm_up(session: Session) -> PassReport:
    """Call the target until it is warm; its steps, tokens and model are in the session after it."""
    session.watches.profilers.places.clear()
    say = session.channel.progress
    say("warmup", "first call")
    before = fingerprint(session.target.arguments.build())
    first = session.call(keep_items=True)
    cuda: Any = torch.cuda
    session.on_device = cuda.is_available() and cuda.is_initialized()
    if session.on_device:
        session.drain()
        session.change(device=about.device())
    session.change(environment=about.environment())
    _note_changes(session, first, before)
    finder = StepFinder(session)
    say("warmup", "finding steps")
    second = finder.watched_call()
    counted = [_count(session, first), _count(session, second)]
    certain = counted[1].source in ("yields", YIELDED_LISTS, "returned list", "--new-tokens")
    tokens = counted[1].tokens if certain else None
    expected = finder.install(second, tokens=tokens)
    say("warmup", "checking steps")
    third, counter = finder.checked_call(tokens=tokens)
    counted.append(_count(session, third))
    session.steps = counter.boundaries
    steps = [expected, counter.boundaries, *_until_warm(session, third)]
    watches = session.watches
    session.graphs_captured_in = min(watches.captured_in, key=PHASES.index, default=None)
    final = _count(session, third, first=counter.first, forwards=counter.boundaries)
    _describe(session, third, final)
    _note_differences(session, counted, steps)
    return PassReport(name="warmup", status="done", new_tokens=final.tokens)


def _until_warm(session: Session, last: Called) -> list[int]:
    """Call again until two successive calls agree; the steps of each further call."""
    elapsed = [last.elapsed_ns]
    steps = []
    while session.calls < _MAX_CALLS and sum(elapsed) < _BUDGET_NS:
        session.channel.progress("warmup", f"call {session.calls + 1}")
        counter = Counter()
        elapsed.append(session.call(counter).elapsed_ns)
        steps.append(counter.boundaries)
        if abs(elapsed[-1] - elapsed[-2]) <= _AGREEMENT_SHARE * min(elapsed[-2:]):
            break
    return steps


def _count(
    session: Session, called: Called, *, first: Shape = NO_SHAPE, forwards: int = 0
) -> Counted:
    asked_batch, swept = _asked(session, called)
    return count(
        called.returned,
        arguments=called.values,
        first_query=first.query,
        first_batch=first.batch,
        forwards=forwards,
        stated=session.job.new_tokens,
        asked_batch=asked_batch,
        swept=swept,
    )


def _asked(session: Session, called: Called) -> tuple[int | None, int | None]:
    """The batch that an argument asks for, and a swept value that may be one; see `count`."""
    numbers = _numbers(session.target.function, called.values)
    batches = {value for name, value in numbers.items() if _names_a_batch(name)}
    varied = session.job.varied
    unclear = varied is not None and not any(word in varied.lower() for word in _TOKEN_WORDS)
    swept = numbers.get(varied) if unclear and varied is not None else None
    return (batches.pop() if len(batches) == 1 else None), swept


def _names_a_batch(name: str) -> bool:
    small = name.lower()
    return small in _BATCH_NAMES or any(word in small for word in _BATCH_WORDS)


def _describe(session: Session, called: Called, counted: Counted) -> None:
    """Put the target, as it turned out to be, into the recording."""
    info: TargetInfo = TargetInfo(
        spec=session.target.spec.short,
        kind=called.returned.kind,
        arguments=session.target.arguments.described(called.values),
        setup=session.job.setup,
        given=[each.shown() for each in session.target.arguments.given],
        new_tokens=counted.tokens,
        new_tokens_from=counted.source,
        batch=counted.batch,
    )
    session.change(target=info)
    if counted.seen is not None and counted.seen != counted.tokens:
        session.caveat(
            f"--new-tokens says {counted.tokens}, but the call returned "
            f"{units.counted(counted.seen, 'new token')}"
        )
    if counted.source == YIELDED_LISTS:
        session.caveat(
            "each yield is a list of numbers: one token for each sequence of a batch, or several "
            "tokens of one sequence; which is not known, so no tokens per second are given "
            "(`--new-tokens` says how many tokens of each sequence a call makes)"
        )
    if counted.source == UNCLEAR_LISTS:
        session.caveat(
            f"each returned list is as long as `{session.job.varied}` asks for: one token for each "
            "sequence of a batch, or the tokens of one sequence; which is not known, so no tokens "
            "per second are given (`--new-tokens` says how many tokens of each sequence a call "
            "makes; an argument called `batch` is taken to be the number of sequences)"
        )
    session.token_parameter = token_parameter(
        session.target.function,
        called.values,
        tokens=counted.tokens,
        varied=session.job.varied,
    )
    if session.watches.profilers.places:
        session.caveat(
            "the target runs torch.profiler itself, so its times include that profiler's cost"
        )


def token_parameter(
    function: Any, values: dict[str, Any], *, tokens: int | None, varied: str | None = None
) -> str | None:
    """The argument that says how many tokens to make: an int equal to their number.

    None where no argument is, or where more than one could be and their names do not decide. What
    a sweep has `varied` is none: each of its points is measured at its own value alone.
    """
    equal = [
        name
        for name, value in _numbers(function, values).items()
        if value == tokens and name != varied
    ]
    if len(equal) > 1:
        equal = [name for name in equal if any(word in name.lower() for word in _TOKEN_WORDS)]
    return equal[0] if len(equal) == 1 else None


def _numbers(function: Any, values: dict[str, Any]) -> dict[str, int]:
    """The arguments of a call that are whole numbers, defaults among them."""
    try:
        parameters = inspect.signature(function).parameters
    except (ValueError, TypeError):
        return {}
    defaults = {name: each.default for name, each in parameters.items()}
    return {name: v for name, v in (defaults | values).items() if type(v) is int}


def _note_changes(session: Session, called: Called, before: dict[str, Any]) -> None:
    """Say which arguments the target changed, and whether the next call gets them so."""
    given = {each.name for each in session.target.arguments.given if not each.is_attribute}
    after = fingerprint(called.values)
    for name, value in before.items():
        if after.get(name) == value:
            continue
        if name in given:
            session.caveat(f"the target changes its argument `{name}`; each call got a new one")
        else:
            session.caveat(
                f"the target changes its argument `{name}`, which comes from the script or its "
                "set-up: each call gets it as the one before left it"
            )


def _note_differences(session: Session, counted: list[Counted], steps: list[int]) -> None:
    """Say in what way successive calls of the target were not alike."""
    lengths = [each.tokens for each in counted]
    if len(set(lengths)) > 1:
        listed = ", ".join(str(length) for length in lengths)
        session.caveat(
            f"the target's calls differ: the first three made {listed} tokens; it keeps state "
            "between calls, or samples a stop token"
        )
    elif len(set(steps)) > 1:
        listed = ", ".join(str(number) for number in steps)
        session.caveat(f"the target's calls differ: they took {listed} steps")
    elif counted[0].values != counted[1].values:
        session.caveat(
            "the target's second call made other tokens than its first: it samples without a "
            "fixed seed, or keeps state between calls"
        )
