"""Where do the target's steps begin? One watched call decides, and the next one checks it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping

from torch import nn

from decodeprof.capture import loopmark
from decodeprof.capture.about import largest_model, model_info
from decodeprof.capture.choose import Choice, OutermostCall, choose
from decodeprof.capture.hooks import all_modules, type_key
from decodeprof.capture.session import Called, Session
from decodeprof.capture.watch import Counter, Discovery

_AMBIGUOUS = (
    "several modules are called a different number of times, and none of them once a token, so "
    "the likeliest was taken to begin a step; `with decodeprof.step():` around a step makes it "
    "certain"
)
_NO_STEPS = (
    "no steps were seen: the target calls no module, replays no CUDA graph and yields nothing; "
    "mark its steps with `with decodeprof.step():`"
)


class StepFinder:
    """Finds what begins a step, in two calls of the target.

    The first of them is watched in full: every module, and the lines of the target itself. The
    choice is then installed for good, and the second call shows whether it holds.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._by_type: dict[Hashable, Hashable] = {}
        self._found: Discovery | None = None
        self._lines: loopmark.LineWatch | None = None
        self._counts: Mapping[int, int] = {}

    def watched_call(self) -> Called:
        """Make the call in which everything is watched."""
        session = self._session
        watch, modules = session.watches.steps, session.watches.modules
        code = loopmark.code_of(session.target.function)
        lines = loopmark.LineWatch(code) if code is not None and not watch.replays else None
        counts = lines.count() if lines is not None else {}
        modules.watch_all()
        watch.discover()
        try:
            called = session.call(keep_items=True)
        finally:
            self._found = watch.discovered()
            modules.remove()
            if lines is not None:
                lines.stop()
        self._by_type = {key: type_key(modules.modules, key) for key in modules.modules}
        outermost = dict.fromkeys(call.key for call in self._found.calls)
        roots = [modules.modules[key] for key in outermost if key in modules.modules]
        session.change(model=model_info(roots or self._uncalled_model()))
        session.other_threads = bool(self._found.threads - {threading.get_ident()})
        self._lines, self._counts = lines, counts
        return called

    def _uncalled_model(self) -> list[nn.Module]:
        """What the target's tensors probably belong to, where it calls no module."""
        device_type = "cuda" if self._session.on_device else "cpu"
        found = largest_model(all_modules(), device_type=device_type)
        if found is None:
            return []
        name = type(getattr(found, "_orig_mod", found)).__name__
        self._session.caveat(
            f"no module is called: the weights are taken to be those of `{name}`, the largest "
            "model in the process"
        )
        return [found]

    def install(self, called: Called, *, tokens: int | None) -> int:
        """Report from now on what begins a step; how many of them the watched call had."""
        assert self._found is not None
        watch = self._session.watches.steps
        marked = self._found.steps_marked()
        if marked:
            return self._install_marks(marked, tokens)
        if self._found.calls:
            choice = self._choose(self._found.calls, tokens)
            covers = {outer for key in choice.keys for outer in self._found.inside.get(key, ())}
            self._session.watches.modules.watch_these(set(choice.keys) | covers)
            watch.use(choice, graphs=self._graphs())
            return sum(call.key in choice.keys for call in self._found.calls)
        if "generator" in called.returned.kind:
            watch.by_yields = True
            return called.returned.yields
        return self._install_loop(tokens)

    def _install_marks(self, phases: list[str], tokens: int | None) -> int:
        """The target says itself what a step is."""
        assert self._found is not None
        session = self._session
        session.watches.steps.marks_depth = self._found.marks_depth()
        # The first boundary of a call is its prefill: without a mark of its own it comes before
        # the first step where the steps are fewer than the tokens.
        unmarked = tokens is not None and len(phases) < tokens
        session.loop_after_prefill = phases[0] != "prefill" and unmarked
        return len(phases) + session.loop_after_prefill

    def _choose(self, calls: list[OutermostCall], tokens: int | None) -> Choice:
        choice = choose(calls, tokens=tokens)
        # Where other calls stand between those that begin steps, the first token comes later.
        self._session.first_forward_gives_token = all(call.key in choice.keys for call in calls)
        if choice.ambiguous:
            self._session.caveat(_AMBIGUOUS)
        return choice

    def _graphs(self) -> frozenset[Hashable]:
        assert self._found is not None
        return frozenset(call.key for call in self._found.calls if call.key not in self._by_type)

    def _install_loop(self, tokens: int | None) -> int:
        code = loopmark.code_of(self._session.target.function)
        if self._lines is None or code is None:
            self._session.caveat(_NO_STEPS)
            return 0
        line = loopmark.choose_line(loopmark.loops(code), self._counts, tokens=tokens)
        if line is None:
            before = "" if loopmark.SUPPORTED else " (Python 3.12 can also see a loop without them)"
            self._session.caveat(_NO_STEPS + before)
            return 0
        iterations = self._counts[line]
        self._lines.report(line, self._session.watches.steps.loop)
        # One iteration fewer than tokens: the prompt was taken in before the loop.
        self._session.loop_after_prefill = tokens is not None and iterations < tokens
        return iterations + self._session.loop_after_prefill

    def checked_call(
        self,
        *,
        tokens: int | None,
        counting: Callable[[], Counter] = Counter,
        keep_items: bool = True,
    ) -> tuple[Called, Counter]:
        """Make the call that shows whether what was installed is still what runs.

        Where modules are made anew in each call, they are told by their class from then on.

        Args:
            tokens: new tokens of a call, where they were counted otherwise than by forwards.
            counting: makes the listener; asked again where the call has to be repeated.
            keep_items: keep what a generator yields.
        """
        session = self._session
        counter = counting()
        called = session.call(counter, keep_items=keep_items)
        assert self._found is not None
        if counter.boundaries or not self._found.calls:
            return called, counter
        calls = [
            OutermostCall(self._by_type.get(call.key, call.key), call.query)
            for call in self._found.calls
        ]
        session.watches.modules.watch_all(by_type=True)
        session.watches.steps.use(choose(calls, tokens=tokens))
        counter = counting()
        return session.call(counter, keep_items=keep_items), counter
