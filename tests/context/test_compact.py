"""What a compaction keeps: user messages, the last exchange, pins; and which boundaries count."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentcli.context import compact
from agentcli.context.compact import (
    CompactionParts,
    boundary,
    build_compacted,
    collect_pinned,
    copy_message,
    cut_middle,
    find_pinned,
    last_exchange,
    split_pending,
    user_messages,
    with_longest_cut,
    without_oldest,
    word_for_word,
)
from agentcli.context.estimate import block_tokens, message_tokens
from agentcli.context.view import ContextView
from agentcli.core.ids import SequentialIds
from agentcli.core.messages import (
    Block,
    ImageBlock,
    Message,
    Origin,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    user_message,
)
from agentcli.core.usage import Usage
from tests.support.validate import problems

IMAGE = ImageBlock({"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="})


def prompt(id: str, text: str = "do it", origin: Origin = Origin.PROMPT) -> Message:
    return user_message(text, id, origin)


def answer(id: str, *blocks: Block) -> Message:
    return Message("assistant", blocks or (TextBlock("Yes."),), id, Origin.REPLY, usage=Usage(input_tokens=9_000))


def called(id: str, call: str) -> Message:
    return answer(id, ThinkingBlock("hm", "sig"), ToolUseBlock(call, "Look", {"what": call}))


def results(id: str, call: str, text: str = "seen") -> Message:
    return Message("user", (ToolResultBlock(call, (TextBlock(text),)),), id, Origin.TOOL_RESULTS)


def pieces(**given: Any) -> CompactionParts:
    return CompactionParts(**{"summary": "They want a cat.", "pinned_meta": {}, "restored_meta": {}, **given})


def after(log: list[Message], *new: Message) -> list[Message]:
    """The log with a compaction behind it."""
    return [*log, boundary("b", "manual", (9, 1), new), *new]


TALK = [prompt("p1"), called("c1", "t1"), results("r1", "t1"), answer("a1"), prompt("p2", "and now?")]
TALK += [called("c2", "t2"), results("r2", "t2"), called("c3", "t3"), results("r3", "t3")]


# ------------------------------------------------------------------------------------------------- the user's words


def test_the_users_messages_are_kept_verbatim_and_in_order() -> None:
    text = word_for_word(["first wish", "second\nwish"], 1_000)
    assert text.index("first wish") < text.index("second\nwish")
    assert "left out" not in text
    assert word_for_word([], 1_000) == ""


def test_the_newest_messages_are_kept_first_and_the_oldest_are_removed_with_a_note() -> None:
    texts = [f"wish {number} " + "word " * 300 for number in range(20)]
    text = word_for_word(texts, 1_000)
    assert texts[-1].strip() in text
    assert "wish 0 " not in text
    assert "earlier ones are left out here" in text


@given(st.lists(st.text(max_size=400), max_size=12), st.integers(0, 3_000))
def test_the_users_messages_fit_their_budget(texts: list[str], budget: int) -> None:
    text = word_for_word(texts, budget)
    frame = 60 * (len(texts) + 1)
    assert not text or block_tokens(TextBlock(text)) <= budget * 1.3 + frame


@given(st.text(min_size=1, max_size=3_000), st.integers(0, 500))
def test_a_text_that_is_cut_keeps_its_beginning_and_its_end(text: str, tokens: int) -> None:
    cut = cut_middle(text, tokens)
    if block_tokens(TextBlock(text)) <= tokens:
        assert cut == text
    elif tokens > 50:
        assert cut[0] == text[0]
        assert cut[-1] == text[-1]


def test_prompts_from_before_earlier_compactions_are_found_once_and_dropped_ones_never() -> None:
    log = after([prompt("p1", "one"), prompt("p2", "two")], copy_message(prompt("p2", "two"), "p3"))
    log.append(prompt("p4", "four", Origin.QUEUED))
    assert user_messages(log, lambda message: message.text) == (["one", "two", "four"], 2)
    assert user_messages(log, lambda m: "" if m.id == "p1" else m.text, frozenset({"p4"})) == (["two"], 1)


# -------------------------------------------------------------------------------------------------- the last exchange


def ids(messages: tuple[Message, ...]) -> list[str]:
    return [message.id for message in messages]


def test_the_last_exchange_includes_its_prompt_when_that_fits() -> None:
    assert ids(last_exchange(TALK, 10_000)) == ["p2", "c2", "r2", "c3", "r3"]


def test_the_last_replies_of_a_long_exchange_are_kept_with_their_results() -> None:
    long = [*TALK[:6], results("r2", "t2", "x" * 90_000), *TALK[7:]]
    assert ids(last_exchange(long, 1_000)) == ["c3", "r3"]
    assert last_exchange(long[:7], 1_000) == ()


def test_a_final_reply_is_kept_only_before_a_user_message() -> None:
    talk = TALK[:4]
    assert last_exchange(talk, 10_000) == ()
    assert ids(last_exchange(talk, 10_000, open_end=True)) == ["p1", "c1", "r1", "a1"]


def test_consecutive_replies_are_never_separated() -> None:
    searching = answer("c1", TextBlock("Searching " + "x" * 9_000))
    talk = [prompt("p1", "x" * 90_000), searching, answer("a1"), answer("a2")]
    assert last_exchange(talk, 500, open_end=True) == ()
    assert without_oldest(talk) == tuple(talk[1:])
    assert without_oldest(talk[1:]) is None


def test_when_nothing_can_be_left_out_the_longest_texts_are_cut() -> None:
    image = ToolResultBlock("t1", (TextBlock("far " * 40_000), IMAGE))
    talk = (prompt("p1", "near " * 60_000), called("c1", "t1"), Message("user", (image,), "r1", Origin.TOOL_RESULTS))
    sizes = []
    rest: tuple[Message, ...] | None = talk
    while rest is not None:
        sizes.append(sum(map(message_tokens, rest)))
        last, rest = rest, with_longest_cut(rest)
    assert sizes == sorted(sizes, reverse=True)
    assert 3 < len(sizes) < 10
    assert sizes[-1] < 8_000
    assert last[0].text.startswith("near near")
    assert last[1] == talk[1]
    assert last[2].tool_results[0].content[1] is IMAGE
    assert with_longest_cut(()) is None


def test_messages_added_by_an_earlier_compaction_are_no_exchange() -> None:
    note = user_message("[a file]", "f", Origin.ATTACHMENT, {compact.RESTORED: ["files"]})
    assert last_exchange([*TALK, note], 10_000) == ()
    assert split_pending([*TALK, note, prompt("p3")]) == ((*TALK, note), (prompt("p3"),))


# ------------------------------------------------------------------------------------------------------------ pinned


def test_pinned_blocks_are_repeated_verbatim_even_after_the_next_compaction() -> None:
    pinned = frozenset({"r1:0", "p1:0", "gone:0"})
    blocks, meta = collect_pinned(TALK, pinned)
    assert [block.text.rpartition("\n")[2] for block in blocks if isinstance(block, TextBlock)] == ["do it", "seen"]
    message = Message("user", blocks, "pins", Origin.ATTACHMENT, meta=meta)
    assert find_pinned([*TALK, message], pinned) == {"p1:0", "r1:0", "pins:0", "pins:1"}
    assert collect_pinned([message], pinned) == (blocks, meta)
    assert collect_pinned([message], frozenset({"r1:0"}))[0] == blocks[1:]
    assert collect_pinned([message], frozenset({"pins:0"}))[0] == blocks[:1]


# ---------------------------------------------------------------------------------------------------------- the log


def test_all_parts_follow_the_boundary_in_order() -> None:
    made = build_compacted(
        pieces(
            prompts=word_for_word(["look at this"], 100),
            pictures=(IMAGE,),
            pinned=(TextBlock("kept"),),
            exchange=tuple(TALK[4:]),
            restored=(TextBlock("a file"),),
            pending=(prompt("p3", "and?"),),
        ),
        SequentialIds().new,
    )
    origins = [message.origin for message in made]
    assert origins[:2] == [Origin.SUMMARY, Origin.ATTACHMENT]
    assert origins[2:7] == [message.origin for message in TALK[4:]]
    assert origins[7:] == [Origin.ATTACHMENT, Origin.PROMPT]
    assert made[0].text.index("They want a cat.") < made[0].text.index("look at this")
    assert made[0].content[1] == IMAGE
    assert len({message.id for message in made}) == len(made)
    wire = ContextView().wire(after(TALK, *made))
    assert problems({"model": "m", "max_tokens": 1, "messages": list(wire)}) == []


# --------------------------------------------------------------------------------------------------------- any log


@st.composite
def logs(draw: st.DrawFn) -> list[Message]:
    made: list[Message] = []
    for number in range(draw(st.integers(1, 12))):
        made.append(prompt(f"p{number}", draw(st.text(min_size=1, max_size=300))))
        for turn in range(draw(st.integers(0, 3))):
            call = f"t{number}_{turn}"
            made += [
                called(f"c{number}_{turn}", call),
                results(f"r{number}_{turn}", call, "y" * draw(st.integers(1, 900))),
            ]
        if draw(st.booleans()):
            made.append(answer(f"a{number}"))
    return made


@given(logs(), st.integers(0, 2_000), st.booleans(), st.data())
def test_any_compaction_gives_a_valid_request_with_all_pins(
    log: list[Message], budget: int, open_end: bool, data: st.DataObject
) -> None:
    old, pending = split_pending(log)
    exchange = last_exchange(old, budget, open_end=open_end or bool(pending))
    assert sum(map(message_tokens, exchange)) <= budget
    assert exchange == old[len(old) - len(exchange) :]
    blocks = [f"{m.id}:{n}" for m in log for n, block in enumerate(m.content) if not isinstance(block, ThinkingBlock)]
    pinned = frozenset(data.draw(st.sets(st.sampled_from(blocks), max_size=3)))
    kept, meta = collect_pinned(old[: len(old) - len(exchange)], pinned)
    new = build_compacted(
        pieces(pinned=kept, pinned_meta=meta, exchange=exchange, pending=pending), SequentialIds().new
    )
    view = ContextView()
    whole = after(log, *new, prompt("next", "go on"))
    whole[len(log)] = boundary("b", "auto", (9, 1), new)
    wire = view.wire(whole)
    assert problems({"model": "m", "max_tokens": 1, "messages": list(wire)}) == []
    assert wire[-1]["role"] == "user"
    names = {name for m in new for name in m.meta.get(compact.PINNED, {}).values()}
    copies = {f"{compact.original_id(m)}:{n}" for m in new for n in range(len(m.content))}
    assert pinned <= names | copies
