"""Tokens of one call, from whatever it returns."""

from typing import Any

import pytest
import torch

from decodeprof.capture.tokens import Counted, Returned, count


def counted(
    value: Any, *, forwards: int = 0, first_query: int | None = None, **arguments: Any
) -> Counted:
    return count(
        Returned("function", value),
        arguments=arguments,
        first_query=first_query,
        forwards=forwards,
        stated=None,
    )


@pytest.mark.parametrize(
    ("value", "tokens", "batch"),
    [
        ([5, 6, 7], 3, 1),
        ([[5, 6], [7, 8, 9]], 3, 2),
        ([torch.tensor(5), torch.tensor([6])], 2, 1),
        (torch.tensor([5, 6, 7, 8]), 4, 1),
        (torch.zeros(2, 9, dtype=torch.int32), 9, 2),
        (([5, 6], "text"), 2, 1),
        ({"text": "a", "tokens": [1, 2, 3]}, 3, 1),
    ],
)
def test_sequences_of_integers_are_tokens(value: Any, tokens: int, batch: int) -> None:
    found = counted(value)
    assert (found.tokens, found.batch, found.source) == (tokens, batch, "returned list")


@pytest.mark.parametrize(
    "value",
    [None, "text", [], [0.5], torch.zeros(3), torch.zeros(2, 3, 4, dtype=torch.int64), [True]],
)
def test_what_is_no_sequence_of_tokens_leaves_the_forwards(value: Any) -> None:
    assert counted(value).source == "unknown"
    found = counted(value, forwards=7)
    assert (found.tokens, found.source) == (7, "forwards")


def test_a_prompt_among_the_arguments_is_taken_off() -> None:
    found = counted([1, 2, 3, 9, 8], prompt=[1, 2, 3])
    assert (found.tokens, found.values) == (2, (9, 8))
    ids = torch.tensor([[1, 2], [3, 4]])
    whole = torch.tensor([[1, 2, 7], [3, 4, 7]])
    assert counted(whole, inputs={"input_ids": ids}).tokens == 1
    assert counted(whole, ids=ids).batch == 2


def test_a_prompt_that_only_the_forwards_show_is_taken_off() -> None:
    assert counted([0] * 12, first_query=4, forwards=8).tokens == 8
    assert counted([0] * 12, first_query=4, forwards=7).tokens == 12


def test_as_many_as_forwards_are_all_new() -> None:
    assert counted([1, 2, 3], forwards=3, stop=[1]).tokens == 3


def test_yields_count_one_token_each() -> None:
    items = (torch.tensor([3, 4]), torch.tensor([5, 6]))
    found = count(
        Returned("generator", None, items, 2),
        arguments={},
        first_query=None,
        forwards=0,
        stated=None,
    )
    assert (found.tokens, found.batch, found.source) == (2, 2, "yields")


def test_what_the_user_states_holds() -> None:
    found = count(
        Returned("function", "text"), arguments={}, first_query=None, forwards=3, stated=40
    )
    assert (found.tokens, found.source, found.seen) == (40, "--new-tokens", None)


def test_a_stated_number_does_not_hide_what_was_counted() -> None:
    found = count(
        Returned("function", [1, 2, 3]), arguments={}, first_query=None, forwards=3, stated=40
    )
    assert (found.tokens, found.seen) == (40, 3)


def yielded(*items: Any, first_batch: int | None = None) -> Counted:
    return count(
        Returned("generator", items=items, yields=len(items)),
        arguments={},
        first_query=1,
        forwards=len(items),
        stated=None,
        first_batch=first_batch,
    )


def test_a_list_for_each_sequence_of_the_batch_is_one_token_of_each() -> None:
    found = yielded([1, 2, 3], (4, 5, 6), first_batch=3)
    assert (found.tokens, found.batch, found.source) == (2, 3, "yields")
    assert yielded([7], [8]).batch == 1


def test_what_a_yielded_list_means_is_not_guessed() -> None:
    for first_batch in (None, 1):
        found = yielded([1, 2, 3], [4, 5, 6], first_batch=first_batch)
        assert (found.tokens, found.batch, found.source) == (2, None, "yielded lists")
    assert yielded([1, 2, 3], [4, 5], first_batch=3).source == "yielded lists"


def steps_of(value: Any, **known: Any) -> tuple[int | None, int | None, str]:
    known = {"forwards": 0, **known}
    found = count(Returned("function", value), arguments={}, first_query=None, stated=None, **known)
    return found.tokens, found.batch, found.source


@pytest.mark.parametrize("pack", [list, torch.stack, lambda steps: [s.tolist() for s in steps]])
def test_a_list_of_steps_is_not_read_as_sequences(pack: Any) -> None:
    steps = pack([torch.arange(16) + step for step in range(8)])
    assert steps_of(steps, asked_batch=16) == (8, 16, "returned list")
    assert steps_of(steps, first_batch=16, forwards=8) == (8, 16, "returned list")
    # As many lists as sequences were asked for: each is one of them.
    assert steps_of(steps, asked_batch=8, swept=16) == (16, 8, "returned list")
    assert steps_of(steps) == (16, 8, "returned list")
    # The swept argument may be the batch, or what each sequence is to be long.
    assert steps_of(steps, swept=16) == (None, None, "returned lists")
    assert steps_of(steps, swept=4) == (16, 8, "returned list")


def test_the_first_sequence_of_steps_is_their_first_tokens() -> None:
    found = count(
        Returned("function", [[5, 1, 9], [6, 2, 8]]),
        arguments={},
        first_query=None,
        forwards=0,
        stated=None,
        asked_batch=3,
    )
    assert found.values == (5, 6)


def test_one_list_is_one_sequence_however_many_were_asked_for() -> None:
    assert steps_of([1, 2, 3, 4], asked_batch=4, swept=4) == (4, 1, "returned list")
