"""An OAuth 2.1 authorization server and a protected streamable HTTP MCP server, on loopback, for one test each.

Both speak the real protocols over real sockets. What they do wrong is set by attributes.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import unquote, urlencode

import httpx2

from tests.support.http_server import HttpServer, Request, head, read_request

AS_METADATA = "/.well-known/oauth-authorization-server"
OIDC_METADATA = "/.well-known/openid-configuration"
RESOURCE_METADATA = "/.well-known/oauth-protected-resource"


@dataclass
class Answer:
    status: int = 200
    body: Any = None
    """Sent as JSON; bytes as they are."""
    headers: dict[str, str] = field(default_factory=dict)


class _AnswersEach(HttpServer):
    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def answer(self, request: Request) -> Answer:
        raise NotImplementedError

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        self.requests.append(request)
        answer = await self.answer(request)
        content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        sent = {"content-type": "application/json", "content-length": str(len(content)), "connection": "close"}
        writer.write(head(answer.status, **sent, **answer.headers) + content)
        await writer.drain()


class AuthorizationServer(_AnswersEach):
    """Signs everybody in at once; `browse` is the browser."""

    def __init__(self, issuer_path: str = "") -> None:
        super().__init__()
        self.issuer_path = issuer_path
        self.metadata_paths = {f"{AS_METADATA}{issuer_path}"}
        self.metadata: dict[str, Any] = {}
        """Over the usual metadata; a value of None removes."""
        self.clients: dict[str, dict[str, Any]] = {}
        """By ID; a `client_secret` in it is demanded with HTTP Basic authentication."""
        self.redirect: dict[str, str | None] = {}
        """Over the parameters of the redirect; None removes."""
        self.expires_in: int | None = 3600
        self.refuses_refresh = False
        self.broken = 0
        """HTTP status of the token endpoint's answers; 0: it works."""
        self.revocation_status = 200
        self.registrations: list[dict[str, Any]] = []
        self.authorizations: list[dict[str, str]] = []
        self.token_requests: list[dict[str, str]] = []
        self.revoked: list[str] = []
        self.access: dict[str, dict[str, str]] = {}
        """Valid access tokens, with the scope and resource of each."""
        self._refresh: dict[str, dict[str, str]] = {}
        self._codes: dict[str, dict[str, str]] = {}
        self._numbers = count(1)

    @property
    def issuer(self) -> str:
        return f"{self.url}{self.issuer_path}"

    def accepts(self, token: str, resource: str) -> bool:
        return self.access.get(token, {}).get("resource") == resource

    async def answer(self, request: Request) -> Answer:
        if request.path in self.metadata_paths:
            return Answer(body=self._metadata())
        match request.method, request.path:
            case "POST", "/register":
                return self._register(json.loads(request.body))
            case "GET", "/authorize":
                return self._authorize(request.query)
            case "POST", "/token":
                return self._token(request)
            case "POST", "/revoke":
                return self._revoke(request.form)
        return Answer(404, {"error": "not found"})

    def _metadata(self) -> dict[str, Any]:
        usual = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "revocation_endpoint": f"{self.url}/revoke",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }
        return {name: value for name, value in {**usual, **self.metadata}.items() if value is not None}

    def _register(self, wanted: dict[str, Any]) -> Answer:
        self.registrations.append(wanted)
        made = {**wanted, "client_id": f"client-{next(self._numbers)}"}
        self.clients[made["client_id"]] = made
        return Answer(201, made)

    def _authorize(self, query: dict[str, str]) -> Answer:
        self.authorizations.append(query)
        client = self.clients.get(query["client_id"])
        if client is None or query["redirect_uri"] not in client["redirect_uris"] or "code_challenge" not in query:
            return Answer(400, {"error": "invalid_request"})
        code = f"code-{next(self._numbers)}"
        self._codes[code] = query
        usual = {"code": code, "state": query["state"], "iss": self.issuer}
        sent = {name: value for name, value in {**usual, **self.redirect}.items() if value is not None}
        return Answer(302, headers={"Location": f"{query['redirect_uri']}?{urlencode(sent)}"})

    def _token(self, request: Request) -> Answer:
        form = request.form
        self.token_requests.append(form)
        if self.broken:
            return Answer(self.broken, {"error": "server_error"})
        client = self.clients.get(form.get("client_id", ""))
        if client is None or not self._authenticates(client, request):
            return Answer(401, {"error": "invalid_client"})
        if form["grant_type"] == "refresh_token":
            # Each refresh token is valid once.
            granted = self._refresh.pop(form["refresh_token"], None)
            return self._issue(granted) if granted and not self.refuses_refresh else _refused()
        asked = self._codes.pop(form["code"], None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        same = ("client_id", "redirect_uri", "resource")
        if asked is None or asked["code_challenge"] != challenge or any(asked[name] != form[name] for name in same):
            return _refused()
        return self._issue({"scope": asked.get("scope", ""), "resource": asked["resource"]})

    def _issue(self, granted: dict[str, str]) -> Answer:
        number = next(self._numbers)
        access, refresh = f"access-secret-{number}", f"refresh-secret-{number}"
        self.access[access] = granted
        self._refresh[refresh] = granted
        tokens: dict[str, Any] = {"access_token": access, "token_type": "bearer", "refresh_token": refresh}
        if self.expires_in is not None:
            tokens["expires_in"] = self.expires_in
        return Answer(body={**tokens, "scope": granted["scope"]})

    def _revoke(self, form: dict[str, str]) -> Answer:
        self.revoked.append(form["token"])
        self.access.pop(form["token"], None)
        self._refresh.pop(form["token"], None)
        return Answer(self.revocation_status, {})

    @staticmethod
    def _authenticates(client: dict[str, Any], request: Request) -> bool:
        if "client_secret" not in client:
            return True
        kind, _blank, pair = request.headers.get("authorization", "").partition(" ")
        name, _colon, secret = base64.b64decode(pair).decode().partition(":")
        wanted = (client["client_id"], client["client_secret"])
        return kind == "Basic" and (unquote(name), unquote(secret)) == wanted


class ProtectedServer(_AnswersEach):
    """An MCP server with the tools `read` and `write`, for holders of a token."""

    def __init__(self, authorization: AuthorizationServer) -> None:
        super().__init__()
        self.authorization = authorization
        self.names_metadata = True
        """Whether its 401 names the address of its metadata."""
        self.metadata_paths = {f"{RESOURCE_METADATA}/mcp"}
        self.metadata: dict[str, Any] = {}
        self.scopes: dict[str, str] = {}
        """Scope that a tool needs, or a method."""
        self.redirects_to = ""
        """Where every request to the MCP endpoint is redirected."""

    @property
    def endpoint(self) -> str:
        return f"{self.url}/mcp"

    @property
    def tokens(self) -> list[str]:
        """The tokens that came with the requests to the MCP endpoint, "" for those without."""
        return [
            request.headers.get("authorization", "").removeprefix("Bearer ")
            for request in self.requests
            if request.path == "/mcp"
        ]

    async def answer(self, request: Request) -> Answer:
        if request.path in self.metadata_paths:
            servers = [self.authorization.issuer]
            return Answer(body={"resource": self.endpoint, "authorization_servers": servers, **self.metadata})
        if request.path != "/mcp":
            return Answer(404, {"error": "not found"})
        if self.redirects_to:
            return Answer(307, headers={"Location": self.redirects_to})
        if request.method not in ("POST", "GET"):
            return Answer(405, {})
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not self.authorization.accepts(token, self.endpoint):
            metadata = f', resource_metadata="{self.url}{RESOURCE_METADATA}/mcp"' if self.names_metadata else ""
            return Answer(401, {}, {"WWW-Authenticate": f'Bearer realm="mcp"{metadata}'})
        if request.method == "GET":
            return Answer(405, {})
        return self._call(json.loads(request.body), self.authorization.access[token]["scope"].split())

    def _call(self, message: dict[str, Any], granted: list[str]) -> Answer:
        method, parameters = message["method"], message.get("params", {})
        needed = self.scopes.get(parameters.get("name", method), "")
        if needed and needed not in granted:
            challenge = f'Bearer error="insufficient_scope", scope="{needed}"'
            return Answer(403, {}, {"WWW-Authenticate": challenge})
        if "id" not in message:
            return Answer(202, b"")
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": parameters.get("protocolVersion"),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "protected", "version": "1"},
            },
            "tools/list": {
                "tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("read", "write")],
            },
            "tools/call": {"content": [{"type": "text", "text": f"done: {parameters.get('name')}"}]},
            "ping": {},
        }
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        if method not in results:
            return Answer(body={**reply, "error": {"code": -32601, "message": "no such method"}})
        return Answer(body={**reply, "result": results[method]})


async def browse(address: str, *, follows: bool = True) -> httpx2.Response:
    """What a browser does with an address: the last page, or the redirect if it does not follow."""
    async with httpx2.AsyncClient(verify=False, trust_env=False, follow_redirects=follows) as client:
        return await client.get(address)


def _refused() -> Answer:
    return Answer(400, {"error": "invalid_grant"})
