"""All texts of the demo: the scripted replies and the notes around them.

Nothing here pretends to be a model: where it matters, the text states that it comes from a script.
"""

from __future__ import annotations

from agentcli.demo import FIRST_PROMPT
from agentcli.demo.project import CODE, TEST_COMMAND

MODEL = "demo-script"
"""The model name of the script; the status line shows it."""

FIX = FIRST_PROMPT
FIX_AGAIN = "Please fix it after all"
TALK = "How does an agent work? At length"
STEER = "In one sentence, please"
GOODBYE = "What next?"

THINK_FIRST = (
    "A test fails and I know nothing about the project yet. The code, its test and the README do not depend on one "
    "another, so I can ask for all three at once instead of one after the other."
)
READING = "I'll read the code, its test and the README, **all three at once**: reading needs no permission.\n"
THINK_CAUSE = (
    "split(1000, 3): 1000 // 3 is 333, and three times 333 is 999. The remainder of the integer division is dropped, "
    "so one cent is lost. Before I change anything I want to see the test fail for exactly this reason."
)
SUSPECTING = (
    "`split` divides with `//` and drops the remainder: ten euros among three friends come to 9.99. "
    "I run the test to see it fail for **that** reason. A command needs your permission.\n"
)
THINK_EDIT = (
    "divmod gives share and remainder together. The first `rest` people pay one cent more: the sum is exact, and "
    "nobody pays two cents more than anybody else."
)
SEEN_FAILING = "`999 != 1000`: the lost cent. Here is the fix, as a diff for you to approve.\n"
NOT_SEEN = "Then without seeing it fail. Here is the fix, as a diff for you to approve.\n"
CHECKING = "The edit is in. I run the test again; with “Always allow” you would not be asked this time.\n"
PARTLY = "The edit is in, though not as I proposed it. I run the test to see what it says.\n"
DONE = f"""\
**Fixed, and proven:** `{TEST_COMMAND}` passes.

| | before | after |
|---|---|---|
| `split(1000, 3)` | 333 + 333 + 333 = **999** | 334 + 333 + 333 = **1000** |

One function in `{CODE}` was changed; `/diff` shows it.
"""
WAS_LIMITED = (
    "*(The script had just answered “429, too many requests”: agentcli waited and retried automatically.)*\n\n"
)
UNTESTED = (
    f"The fix is in `{CODE}`, but not tested. Run the test yourself: `!{TEST_COMMAND}` "
    "(a line that begins with `!` goes to your shell).\n"
)
STILL_FAILING = "The test still fails, so this is not the fix that I proposed. `/diff` shows what has changed.\n"
REFUSED = f"""\
Understood: `{CODE}` stays as it is, and the test keeps failing.{{reason}}

A model would now look for another way with you. I am a script and know only this one: it is in the input box again, \
if you change your mind.
"""
MODE_REFUSES = "\n\nThat is the permission mode; Shift+Tab switches to the next one."
STUCK = "The edit did not work: {reason}\n\nThe next step is in the input box, or try again with “fix it”.\n"
ALREADY = f"The fix is already in `{CODE}`: there is nothing left to do. `!{TEST_COMMAND}` shows it.\n"

THINK_TALK = "The user wants a long answer. It is also a good moment for an interruption."
LONG_ANSWER = """\
**Press Esc whenever you have had enough.** Nothing is lost: the text so far is kept, and you say what you want \
instead. Until then I continue.

## One prompt, many turns

You send a prompt. The program adds what a model needs to know (where it works, which tools there are) and asks the \
model. The answer comes back word by word, and it may contain *calls*: read this file, change that line, run this \
command. The program runs them, sends the results back and asks again. It ends when an answer has no more calls.

## What happens while the answer comes

1. A call that only reads begins while the rest of the answer is still being written.
2. Calls that do not get in one another's way run side by side.
3. A call that changes something waits for you, unless a rule of yours allows it.
4. A connection that breaks, a server that is overloaded, a limit that is reached: it waits, asks again, continues.

## What you control

Every edit is a diff before it is a change. Every command is shown before it runs, in a sandbox where the machine has \
one. Every change can be undone with `/undo`, even when the file is in no repository. And Esc stops everything, \
within milliseconds, even in the middle of a word.

## What it costs

Each turn sends the whole conversation again, and most of it is billed at a tenth, because the server still has it. \
That is why nothing that was sent is ever changed. When a conversation grows too long, `/compact` makes a summary of \
it; you read the summary before it takes effect.

You have let me finish: that is fine, too.
"""
STEERED = (
    "You stopped me and said “{said}”. A model would take that as the new direction. I am a script and have one "
    "sentence:\n\n"
    "> An agent is a loop: a model proposes, the program does it with your permission, and the result goes back to "
    "the model.\n"
)
FREE = (
    "I am a script, not a model, so I cannot really answer “{said}”. Everything else is real: the files, the "
    "permissions, the commands, the interruptions.\n\n{on}\n"
)
ASIDE = "*(You said “{said}” while I was working. A model would consider it; I am a script and continue.)*\n\n"
GO_ON = "**To continue:** `{line}` is in the input box; press Enter."
TO_LEAVE = "The tour is over. `/exit` leaves, or look around: `/help`, `/context`, `/cost`."
LAST_WORDS = """\
That was the tour. **Everything except my replies was real**: files, permissions, test, retry, undo.

- `agentcli login` stores an API key; without one, `agentcli` offers a model server on this machine
- `agentcli` in a project of yours, then say what you want
- `agentcli -p "..."` in scripts; `agentcli --help` has the rest
- `/help` or `?` in here lists every command and key

The status line shows what this would have cost with a real model: the demo was free.
"""
SUMMARY = """\
1. Intent: the user takes the scripted tour of agentcli and wanted the failing test of this project fixed.
2. Decisions: `split` uses divmod and gives the remainder, cent by cent, to the first who pay.
3. Files and code: `tab/money.py` ({state}), `test_tab.py` (run with `python3 -m unittest`).
4. Next step: the rest of the tour.
"""
SIDE_LINE = "Looked at the project and ran its test"
LIMITED = "This request would exceed your rate limit. It is part of the tour: the script sends this once."

WELCOME = (
    "A scripted demo: no key, no cost · prices shown are simulated",
    "Only the replies are scripted · files, tools and permissions are real, in a temporary project",
    "Enter begins · or type anything",
)
