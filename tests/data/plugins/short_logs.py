"""A context step: old results that are long logs become one line."""

from collections.abc import Sequence

from agentcli import ContextEdit, ContextState, Message, Plugin, StepPlan, ToolResultBlock, block_id

plugin = Plugin()
LONG = 2_000


@plugin.context_step
def short_logs(messages: Sequence[Message], state: ContextState) -> StepPlan | None:
    edits = []
    for message in messages[:-2]:
        for place, block in enumerate(message.content):
            if not isinstance(block, ToolResultBlock) or not state.is_free(block_id(message, place)):
                continue
            text = "".join(getattr(part, "text", "") for part in block.content)
            if len(text) > LONG and "ERROR" not in text:
                target = block_id(message, place)
                edits.append(
                    ContextEdit(kind="replace", target=target, text="(a log without errors)", freed=len(text) // 4)
                )
    return StepPlan(tuple(edits), f"shortened {len(edits)} logs", must=True) if edits else None
