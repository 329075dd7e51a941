"""What is a reader asked at the end, and what is the answer?"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Exercise:
    """A question with one right option.

    Attributes:
        answer: index of the right option.
        why: shown when it was chosen.
    """

    key: str
    question: str
    options: tuple[str, ...]
    answer: int
    why: str


EXERCISES = (
    Exercise(
        key="int-token",
        question="Removing `int(token)` from a graph's loop makes it faster, though the GPU runs "
        "the same kernels. Why?",
        options=(
            "Converting a tensor to a Python number is slow.",
            "The host no longer waits for an empty queue, so the next step is queued before this "
            "one ends.",
            "The token stays on the GPU, which saves the copy of 8 bytes.",
            "The GPU skips the argmax.",
        ),
        answer=1,
        why="The wait drains the queue. The copy takes a microsecond or two; what costs is the "
        "time after it, until the host has launched something again and the device has begun it.",
    ),
    Exercise(
        key="if-stop",
        question="Why can a CUDA graph not hold `if token == stop: break`?",
        options=(
            "Graphs hold no comparisons.",
            "The token has another dtype while a graph is captured.",
            "The branch is taken by Python on the host, which would have to wait for a value that "
            "does not exist while the step is recorded; replays run no Python.",
            "It can, if the loop is unrolled.",
        ),
        answer=2,
        why="A capture records kernels that have not run. Keep a flag on the device, let each step "
        "or it with the comparison, and look at it from outside every few steps.",
    ),
    Exercise(
        key="hidden-slots",
        question="A static cache holds 4,096 slots, 100 of them written. What keeps the 3,996 "
        "others out of the result?",
        options=(
            "They are zeros, so they add nothing.",
            "The mask: a slot counts only if its position is at or before the query's.",
            "The kernel stops at the first zero.",
            "Nothing; that is the price of a static cache.",
        ),
        answer=1,
        why="A zero key has a score of 0, and e to the 0 is 1: zeros would take part. The mask "
        "gives them weight 0, and the slot at a position is always written before a query gets "
        "there. They must not hold NaN all the same: 0 times NaN is NaN.",
    ),
    Exercise(
        key="no-cpu",
        question="You remove every sync from a loop and run it on a CPU. Nothing speeds up. Why?",
        options=(
            "The CPU is busy with Python.",
            "CPU operations run when they are called: there is no queue that could run ahead, so "
            "no wait that could be saved.",
            "Syncs on a CPU are asynchronous.",
            "It does speed up, by a few percent.",
        ),
        answer=1,
        why="`int(token)` waits for nothing there: the number is there when the call before it "
        "returns. That is also why a CPU cannot tell what a sync costs on a GPU.",
    ),
    Exercise(
        key="rebinding",
        question="In a loop around a captured graph you write `token = following` in place of "
        "`token.copy_(following)`. What happens?",
        options=(
            "An error: the graph misses its input.",
            "The same, but faster: no copy.",
            "The graph is captured again.",
            "Every replay reads the old memory: the same token goes in again and again, without "
            "an error.",
        ),
        answer=3,
        why="A graph holds addresses, not names. Rebinding moves the name to other memory; the "
        "graph goes on with what it was captured with.",
    ),
)
