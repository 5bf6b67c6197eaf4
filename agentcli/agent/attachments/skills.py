"""Skills for the model: which ones were announced, and which ones it has used.

With few skills all are listed. With many, those are that fit the latest prompt and the files of its work, and new ones;
the Skill tool searches the rest. They are listed by name and description in an attachment at the end of the
conversation, never in the system prompt, so that a skill that appears, changes or goes leaves the request's prefix as
it is. What was announced is read from the messages in sight: it survives a resume and is repeated after a compaction.
The files are read again while the model streams.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence

from agentcli.agent.live_permissions import LivePermissions
from agentcli.agent.loop_state import LoopState
from agentcli.agent.ports import Attachments, Lookup
from agentcli.agent.prompt_expansion import rights_notice, skill_text
from agentcli.core.aio import in_thread
from agentcli.core.ids import Ids
from agentcli.core.messages import EXPANDED, RESULT_DATA, SKILLS, Message, Origin, user_message
from agentcli.core.space_saving import RunningValue
from agentcli.core.text.plaintext import plain_line
from agentcli.definitions.files import SkillFile
from agentcli.definitions.library import Library
from agentcli.tools.skill import NAME, SEARCH, USED_SKILL, LoadedSkill

LISTING_CHARACTERS = 8_000
MAX_ALL_LISTED = 30
"""Up to so many skills, all are listed; of more, those that fit the prompt."""
MAX_RELEVANT = 12
"""Skills that are listed for one prompt, besides new and changed ones."""
_MAX_QUERY = 4_000
READ_AGAIN_SECONDS = 0.005
"""Delay before the files are read again: by then the request is sent, and nothing else needs the processor."""
_MIN_DESCRIPTION = 40
_HEADING = (
    "[Skills: instructions for kinds of tasks. When one fits the task, load it with the Skill tool before you begin.]"
)
_CHANGED = "[The skills have changed. New or changed ones:]"
_MORE = "[More skills that may fit:]"
_BY_READING = (
    "[New skills: instructions for kinds of tasks. When one fits the task, read its SKILL.md with the Read tool before "
    "you begin.]"
)
_Digests = tuple[str, str]
"""Digests of a skill's description and of its text."""


class ModelSkills:
    """The skills that the model may load, for the Skill tool."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def all(self) -> dict[str, SkillFile]:
        return {name: skill for name, skill in self._library.skills.items() if skill.for_model}

    def load(self, name: str, arguments: str) -> LoadedSkill | None:
        skill = self.all().get(name)
        if skill is None:
            return None
        notice = rights_notice(skill)
        allows = () if notice else skill.allowed_tools
        return LoadedSkill(name, skill_text(skill, arguments), skill.origin.label, allows, notice)

    def search(self, words: str) -> list[tuple[str, str]]:
        skills = self.all()
        return [(name, skills[name].description) for name in relevant(words, skills)[:MAX_RELEVANT]]

    def near(self, name: str) -> Sequence[str]:
        from difflib import get_close_matches

        known = list(self.all())
        return get_close_matches(name, known, n=3) or known[:30]


class SkillListing(Attachments):
    """Lists the available skills for the model. One per conversation."""

    def __init__(
        self,
        library: Library,
        permissions: LivePermissions,
        ids: Ids,
        shown: Callable[[Sequence[Message]], Sequence[Message]],
        has_tool: bool,
        *,
        refreshes: bool = True,
    ) -> None:
        """`has_tool`: whether the conversation has the Skill tool. Adding the tool later would change the prefix, so
        without it the model reads the files of new skills. `refreshes`: read the files again after each request; a
        sub-agent leaves that to the session."""
        self._library = library
        self._skills = ModelSkills(library)
        self._permissions = permissions
        self._ids = ids
        self._shown = shown
        self._has_tool = has_tool
        self._refreshes = refreshes
        self._announced: RunningValue[Message, _Known] = RunningValue(_Known, _take_in)
        """What messages in sight say about skills."""
        self._ranked: tuple[tuple[str, int], list[str]] = (("", -1), [])
        """The query and the library's version of the last ranking, and its best skills."""
        self._reading: asyncio.Future[bool] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        return self._reading is not None and not self._reading.done()

    def lookup(self, state: LoopState) -> Lookup | None:
        if self._timer is None or self._reading is not None:
            return None
        # The reply was faster than the timer.
        self._timer.cancel()
        self._timer = None
        return self._library.refresh

    async def collect(self, state: LoopState) -> Sequence[Message]:
        if (lookup := self.lookup(state)) is not None:
            await in_thread(lookup)
        if self._reading is not None and not self._reading.done():
            await asyncio.shield(self._reading)
        message = await self._news(self._shown(state.messages))
        if self._refreshes:
            self._reading = None
            self._timer = asyncio.get_running_loop().call_later(READ_AGAIN_SECONDS, self._read_again)
        return () if message is None else (message,)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _read_again(self) -> None:
        self._reading = asyncio.get_running_loop().run_in_executor(None, self._library.refresh)

    async def _news(self, shown: Sequence[Message]) -> Message | None:
        known = self._announced.of(shown)
        announced = known.announced
        now = {name: skill for name, skill in self._skills.all().items() if not self._deny(name)}
        due = [skill for name, skill in now.items() if _is_news(skill, announced.get(name), name in known.used)]
        others: list[str] = []
        if len(now) > MAX_ALL_LISTED and self._has_tool:
            fitting = await self._select_fitting(now, known.query)
            # A skill that came later is listed in any case.
            begun = bool(announced or known.others)
            kept = {*fitting, *announced, *(() if not begun else now.keys() - known.others)}
            others = [] if begun else [skill.name for skill in due if skill.name not in kept]
            due = [skill for skill in due if skill.name in kept]
        gone = sorted(set(announced) - set(now))
        if not due and not gone and not others:
            return None
        lines = [] if due or not others else [_HEADING, _more(len(others))]
        if due:
            unlisted = len(now) - len({*announced, *(skill.name for skill in due)} & set(now))
            lines = [self._make_heading(announced, due), *self._lines(due, unlisted)]
        if gone:
            lines.append(f"[Skills that are gone: {', '.join(gone)}]")
        listed = {skill.name: list(_digests(skill)) for skill in due}
        meta = {SKILLS: {"listed": listed, "gone": gone, "first": not announced, "tool": self._has_tool}}
        if others:
            meta[SKILLS]["others"] = others
        if not gone and all(skill.name in known.others for skill in due):
            # Known files that fit this prompt: nothing has changed for the user.
            meta[SKILLS]["unchanged"] = True
        return user_message("\n".join(lines), self._ids.new(), Origin.ATTACHMENT, meta)

    def _make_heading(self, announced: Mapping[str, _Digests], due: Sequence[SkillFile]) -> str:
        if not self._has_tool:
            return _BY_READING
        if not announced:
            return _HEADING
        return _CHANGED if any(skill.name in announced for skill in due) else _MORE

    async def _select_fitting(self, skills: Mapping[str, SkillFile], query: str) -> list[str]:
        """The skills that fit the query best. Ranked again only if it has changed; hundreds take tens of
        milliseconds."""
        key = (query, self._library.version)
        if self._ranked[0] != key:
            self._ranked = (key, (await in_thread(relevant, query, skills))[:MAX_RELEVANT])
        return self._ranked[1]

    def _lines(self, skills: Sequence[SkillFile], unlisted: int = 0) -> list[str]:
        names = [skill.name if self._has_tool else f"{skill.name} ({skill.origin.path})" for skill in skills]
        longest = max(len(skill.description) for skill in skills)
        while True:
            lines = [
                f"- {name}: {plain_line(skill.description, longest)}" for name, skill in zip(names, skills, strict=True)
            ]
            if sum(map(len, lines)) <= LISTING_CHARACTERS or longest <= _MIN_DESCRIPTION:
                break
            longest = max(_MIN_DESCRIPTION, longest * 3 // 4)
        room, kept = LISTING_CHARACTERS, 0
        while kept < len(lines) and room >= len(lines[kept]):
            room -= len(lines[kept])
            kept += 1
        unlisted += len(lines) - kept
        if not unlisted:
            return lines
        return [*lines[:kept], _more(unlisted) if self._has_tool else f"- and {unlisted} more, which are not listed"]

    def _deny(self, name: str) -> bool:
        deny = self._permissions.policy.deny
        return any(rule.names(NAME) and (rule.spec is None or rule.matches_value(name)) for rule in deny)


class _Known:
    """What a conversation says about skills, and what it is about."""

    def __init__(self) -> None:
        self.announced: dict[str, _Digests] = {}
        self.used: set[str] = set()
        self.others: set[str] = set()
        """Skills that existed when others were listed."""
        self._prompt = ""
        self._files: dict[str, None] = {}

    @property
    def query(self) -> str:
        """The latest prompt and the names of the files that calls since then are about."""
        return f"{self._prompt}\n{' '.join(self._files)}"[:_MAX_QUERY]

    def take_subject(self, message: Message) -> None:
        if _is_prompt(message):
            self._prompt, self._files = message.text[:_MAX_QUERY], {}
        for call in message.tool_uses:
            path = call.input.get("file_path")
            if isinstance(path, str):
                self._files[path.rpartition("/")[2]] = None


def _take_in(known: _Known, message: Message) -> _Known:
    known.take_subject(message)
    if not message.meta:
        return known
    known.used.update(_list_used(message))
    news = message.meta.get(SKILLS)
    if isinstance(news, Mapping):
        listed = news.get("listed", {}).items()
        known.announced.update((name, (description, text)) for name, (description, text) in listed)
        known.others.update(news.get("others", ()))
        for name in news.get("gone", ()):
            known.announced.pop(name, None)
    return known


def relevant(query: str, skills: Mapping[str, SkillFile]) -> list[str]:
    """Names of the skills that match words of the query, best first."""
    from agentcli.core.text.ranking import RankedDocument, rank

    return rank(query, [RankedDocument(name, skill.description) for name, skill in skills.items()])


def _more(count: int) -> str:
    return f"- and {count} more. To find one, call Skill with `{SEARCH}` and a few words as its skill."


def list_used_skills(messages: Sequence[Message]) -> list[str]:
    """Skills that were loaded, by the model or with a slash command, last used first, each once."""
    used: dict[str, None] = {}
    for message in reversed(messages):
        for name in reversed(_list_used(message)):
            used.setdefault(name)
    return list(used)


def skill_uses(messages: Sequence[Message]) -> dict[str, int]:
    """Number of prompts since each skill was last used."""
    prompts = sum(_is_prompt(message) for message in messages)
    uses: dict[str, int] = {}
    for message in messages:
        prompts -= _is_prompt(message)
        uses.update((name, prompts) for name in _list_used(message))
    return uses


def _is_prompt(message: Message) -> bool:
    return message.origin in (Origin.PROMPT, Origin.QUEUED) and not message.is_copy


def _list_used(message: Message) -> list[str]:
    found = [str(data[USED_SKILL]) for data in message.meta.get(RESULT_DATA, {}).values() if USED_SKILL in data]
    made_from = message.meta.get(EXPANDED)
    if isinstance(made_from, Mapping) and made_from.get("kind") == "skill":
        found.append(str(made_from.get("name")))
    restored = message.meta.get(RESTORED_SKILLS, ())
    return [*reversed([str(name) for name in restored]), *found]


RESTORED_SKILLS = "restored_skills"
"""Key in a restored message's meta: the skills that it shows, last used first."""


def had_skill_tool(log: Iterable[Message]) -> bool:
    """Whether the requests of this log had the Skill tool."""
    listings = (message.meta.get(SKILLS) for message in log)
    return any(isinstance(news, Mapping) and news.get("tool") for news in listings)


def _is_news(skill: SkillFile, announced: _Digests | None, used: bool) -> bool:
    now = _digests(skill)
    # A text that the model has not loaded comes as it is then.
    return announced is None or announced[0] != now[0] or (used and announced[1] != now[1])


def _digests(skill: SkillFile) -> _Digests:
    def digest(text: str) -> str:
        return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]

    return digest(skill.description), digest(skill.body)
