"""Connecting a model, as steps without a screen: the text of each, its options, and the work that follows.

Pure: a `Welcome` is a value, and every answer of the user makes another one. It may name `work`, whose outcome is the
next answer. Front ends show it and do the work with `welcome_actions`. The key is in here while it is checked, and in
no `repr`.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import Any, Literal

from agentcli.assemble.login import EndpointAddress, tidy_key
from agentcli.core.errors import UsageError
from agentcli.core.frozen import frozen
from agentcli.interactive.questions.model import AnswerChoice
from agentcli.providers.listing import KeyCheck
from agentcli.providers.local_servers import HOST, PROGRAMS, LocalServer

Step = Literal["choose", "key", "working", "unsure", "models", "keep", "done"]
Work = Literal["", "check key", "keep key", "try server", "use server", "use public"]
Outcome = Literal["", "key", "server", "public", "demo", "later"]

_MAX_MODELS = 12
_PORTS = ", ".join(str(program.port) for program in PROGRAMS)


@frozen(kw_only=True)
class Welcome:
    address: EndpointAddress
    """Address of requests, and the one that a pasted key is for."""
    public: EndpointAddress
    public_ready: bool = False
    """Whether there is a key for the public address."""
    connected: str = ""
    """How the model is reached now, as text; "": it is not."""
    waiting: bool = False
    """Whether a prompt waits for the connection."""
    demo: bool = True
    """Whether the tour is offered."""
    step: Step = "choose"
    servers: tuple[LocalServer, ...] | None = None
    """Model servers found on this machine; None: the search is running."""
    target: EndpointAddress | None = None
    """Address of the key to be entered; None: `address`."""
    key: str = field(default="", repr=False)
    server: LocalServer | None = None
    model: str = ""
    always: bool = False
    work: Work = ""
    """What has to be done before the user can answer again."""
    problem: str = ""
    """Last failure, and what to do about it."""
    doing: str = ""
    """What is being waited for."""
    report: str = ""
    """A text about the outcome, when it is done."""
    outcome: Outcome = ""

    # ------------------------------------------------------------------------------------------------- texts

    @property
    def question(self) -> str:
        match self.step:
            case "key":
                return f"API key for {self.key_address.host}"
            case "unsure":
                return "Store the key without a check?"
            case "models" if self.server is not None:
                return f"Which model of {self.server.name}?"
            case "keep" if self.server is not None:
                return f"Use {self.model} on {self.server.name}"
            case "working":
                return "One moment"
        return "Connect a model" if self.connected else "Welcome: connect a model"

    @property
    def lines(self) -> tuple[str, ...]:
        """Paragraphs below the question, without the problem."""
        match self.step:
            case "choose":
                now = f"Now: {self.connected}." if self.connected else "agentcli needs a model to work with."
                waits = " Your prompt is sent once one is connected." if self.waiting else ""
                return f"{now}{waits}", self._looked
            case "key":
                host = self.key_address.host
                return (
                    f"Paste the key; it is not shown. Enter checks it with one free request to {host}.",
                    "It is stored in the system keyring if there is one, else in a file that only you can read.",
                )
            case "working":
                return (f"{self.doing} …",)
            case "models" if self.server is not None and len(self.server.models) > _MAX_MODELS:
                return (f"It has {len(self.server.models)}. To choose one that is not listed, use /model NAME later.",)
            case "keep" if self.server is not None:
                return (f"Requests go only to {self.server.host} on this machine.",)
        return ()

    @property
    def _looked(self) -> str:
        where = f"Model servers on this machine ({HOST}, ports {_PORTS})"
        if self.servers is None:
            return f"{where}: searching … No other machine is contacted."
        return (
            f"{where}: {', '.join(server.name for server in self.servers) or 'none'}. No other machine was contacted."
        )

    @property
    def asks(self) -> str:
        """Label of the hidden text input; "": this step has none."""
        return self.question if self.step == "key" else ""

    def offers(self) -> tuple[AnswerChoice, ...]:
        """The choices of this step. Empty during input and work, when the user can only go back."""
        match self.step:
            case "choose":
                return self._ways()
            case "unsure":
                return (
                    AnswerChoice("keep", "Store it anyway", "y"),
                    AnswerChoice("again", "Check again", "a"),
                    AnswerChoice("other", "Another key", "o"),
                )
            case "models" if self.server is not None:
                return tuple(AnswerChoice(name, name) for name in self.server.models[:_MAX_MODELS])
            case "keep":
                return (
                    AnswerChoice("session", "For this session", "o"),
                    AnswerChoice("always", "Always", "a", detail="baseUrl and model in your user settings"),
                )
        return ()

    def _ways(self) -> tuple[AnswerChoice, ...]:
        unseen = "hidden while you paste, checked, stored for this address only"
        ways = [
            AnswerChoice(
                "key", f"Paste an API key for {self.address.host}", "k", short="Paste an API key", detail=unseen
            )
        ]
        if not self.address.is_public and self.address.source == "settings":
            how = "with the stored key" if self.public_ready else "with a key"
            ways.append(AnswerChoice("public", f"Back to {self.public.host}", "b", detail=how))
        for number, server in enumerate(self.servers or ()):
            shown = ", ".join(server.models[:4]) + (" …" if len(server.models) > 4 else "")
            ways.append(
                AnswerChoice(
                    f"server {number}", f"Use {server.name} on this machine", short=f"Use {server.name}", detail=shown
                )
            )
        if self.demo:
            about = "offline, without a key, in a temporary project"
            ways.append(AnswerChoice("demo", "Take the tour: agentcli demo", "d", short="Take the tour", detail=about))
        rest = "nothing changes" if self.connected else "commands work; the next prompt asks again"
        return (*ways, AnswerChoice("later", "Not now", "n", detail=rest))

    # ------------------------------------------------------------------------------------------------------ answers

    def found(self, servers: tuple[LocalServer, ...]) -> Welcome:
        return replace(self, servers=servers)

    def choose(self, name: str) -> Welcome:
        match self.step, name:
            case "choose", "key":
                return self.ask_key(self.address)
            case "choose", "public" if self.public_ready:
                return self._start_work("use public", f"Switching back to {self.public.host}")
            case "choose", "public":
                return self.ask_key(self.public)
            case "choose", "demo" | "later":
                return self.ended("demo" if name == "demo" else "later")
            case "choose", _:
                return self._choose_server(int(name.partition(" ")[2]))
            case "unsure", "keep":
                return self._keep_key()
            case "unsure", "again":
                return self._check(self.key)
            case "unsure", _:
                return self.ask_key(self.key_address)
            case "models", _:
                return self._try(name)
            case "keep", _:
                return replace(self._start_work("use server", "Connecting"), always=name == "always")
        return self.back()

    def ask_key(self, target: EndpointAddress | None = None, problem: str = "") -> Welcome:
        return self._at("key", target=target or self.address, key="", problem=problem)

    def entered(self, text: str) -> Welcome:
        """Take the typed key."""
        try:
            key = tidy_key(text)
        except UsageError as error:
            return replace(self, problem=str(error))
        return self._check(key) if key else replace(self, problem="No key entered yet. Esc goes back.")

    def checked(self, checked: KeyCheck) -> Welcome:
        match checked.verdict:
            case "refused":
                return self.ask_key(self.key_address, f"{checked.text} Paste the complete key, or another one.")
            case "unreachable":
                return self._at("unsure", problem=checked.text)
        return self._keep_key()

    def tried(self, speaks: bool | None) -> Welcome:
        """Take the result of trying a server: whether it has the Messages API; None: it does not respond."""
        assert self.server is not None
        if speaks:
            return self._at("keep")
        what = "no longer responds" if speaks is None else "has no Messages API; a newer version may have it"
        return self._at("choose", problem=f"{self.server.name} at {self.server.host} {what}.")

    def ended(self, outcome: Outcome, report: str = "") -> Welcome:
        return self._at("done", key="", outcome=outcome, report=report)

    def failed(self, problem: str) -> Welcome:
        return self._at("choose", key="", problem=problem)

    def back(self) -> Welcome:
        """Go back to the first step; from there, end the dialog (Esc)."""
        if self.step == "choose":
            return self.ended("later")
        return self._at("choose", key="", target=None, server=None, model="")

    # -------------------------------------------------------------------------------------------------------- steps

    @property
    def key_address(self) -> EndpointAddress:
        """What the key is for."""
        return self.target or self.address

    def _at(self, step: Step, problem: str = "", **changes: Any) -> Welcome:
        return replace(self, step=step, work="", problem=problem, **changes)

    def _start_work(self, work: Work, doing: str) -> Welcome:
        return replace(self, step="working", work=work, doing=doing, problem="")

    def _check(self, key: str) -> Welcome:
        return replace(self._start_work("check key", f"Contacting {self.key_address.host}"), key=key)

    def _keep_key(self) -> Welcome:
        return self._start_work("keep key", "Storing the key")

    def _choose_server(self, number: int) -> Welcome:
        server = (self.servers or ())[number]
        chosen = self._at("models", server=server)
        return chosen._try(server.models[0]) if len(server.models) == 1 else chosen

    def _try(self, model: str) -> Welcome:
        assert self.server is not None
        return replace(self._start_work("try server", f"Contacting {self.server.host}"), model=model)
