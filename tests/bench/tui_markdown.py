"""An answer that grows: what laying it out costs, at 840 deltas for 20,000 characters and for ten times as much."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.style import Style

from agentcli.tui.blocks.answer import AnswerBlock
from agentcli.tui.blocks.base import wrap
from agentcli.tui.blocks.highlight import warm
from agentcli.tui.model import AnswerItem
from agentcli.tui.theme.palette import Palette
from tests.bench.measure import Measure, Report

_DELTAS = 840
_WIDTH = 100
_PART = """## Part {number}

The slice in `parser.py` dropped the **last** character, because the end was counted from the wrong side. I changed it
so that it is counted from the start, and looked through the callers: none of them relied on the old behaviour.

- `head` keeps what it promises, see [the notes](https://example.org/notes/{number})
- `tail` was right before, its tests are unchanged
  1. one of them was slow
  2. and is quick now

```python
def head(text: str, end: int) -> str:
    \"\"\"The first characters.\"\"\"
    if end < 0:
        raise ValueError(f"{{end}} is before the start")
    return text[0:end]  # not end - 1
```

| file | change | lines |
|------|--------|------:|
| parser.py | the slice ends where it should | 12 |
| test_parser.py | two cases more | 30 |

"""


def reply(size: int) -> str:
    parts = "".join(_PART.format(number=number) for number in range(size // 700))
    return parts[:size]


def tui_markdown(runs: int, shorter: int = 20_000, longest: int = 200_000) -> Report:
    warm(("python",))
    palette = Palette()
    short, long = reply(shorter), reply(longest)
    plain = [("def parse(text: str, *, strict: bool = False) -> Tree:", Style.null())]
    return Report(
        "Laying out an answer while it grows (CPU time)",
        (
            Measure(
                f"{shorter:,} characters, every 4th of 840 deltas",
                _cpu(runs, lambda: _grow(short, 1, palette)),
                budget=150,
            ),
            Measure(
                f"{longest:,} characters, the same rate",
                _cpu(max(1, runs // 3), lambda: _grow(long, 10, palette)),
                budget=1_500,
            ),
            Measure(f"{shorter:,} characters at once", _cpu(runs, lambda: _whole(short, palette))),
            Measure(
                "1,000 short lines wrapped", _cpu(runs, lambda: [wrap(plain, _WIDTH) for _ in range(1_000)]), budget=15
            ),
        ),
    )


def _grow(text: str, times: int, palette: Palette) -> None:
    block = AnswerBlock(AnswerItem(id="answer"))
    step = len(text) // (_DELTAS * times) + 1
    for number, place in enumerate(range(0, len(text), step)):
        block.grow(text[place : place + step])
        if number % 4 == 3:
            block.layout(_WIDTH, palette)
    block.replace(AnswerItem(id="answer", text=text, done=True))
    block.layout(_WIDTH, palette)


def _whole(text: str, palette: Palette) -> None:
    AnswerBlock(AnswerItem(id="answer", text=text, done=True)).layout(_WIDTH, palette)


def _cpu(runs: int, work: Callable[[], object]) -> tuple[float, ...]:
    values = []
    for _run in range(runs):
        began = time.process_time()
        work()
        values.append((time.process_time() - began) * 1_000)
    return tuple(values)


if __name__ == "__main__":
    print(tui_markdown(5))
