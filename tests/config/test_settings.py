"""Layers, provenance, and what files that are broken or not trusted can do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentcli.config.files import parse_value
from agentcli.config.paths import Paths, project_folder
from agentcli.config.schema import KEYS
from agentcli.config.settings import Layer, Settings, SettingsRequest, load_settings
from agentcli.core.errors import UsageError
from agentcli.core.permission import PermissionMode
from tests.support.examples import EXAMPLES, UNHURRIED_IN_ONE_FOLDER


class World:
    """A home, a project and managed settings in a temporary folder."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.paths = Paths(folder / "config", folder / "state", folder / "cache", folder / "managed.json")
        (self.project / ".agentcli").mkdir(parents=True)
        (folder / "config").mkdir()
        self.files = {
            "managed": folder / "managed.json",
            "user": folder / "config" / "settings.json",
            "project": self.project / ".agentcli" / "settings.json",
            "local": self.project / ".agentcli" / "settings.local.json",
        }

    def write(self, layer: str, content: Any) -> Path:
        text = content if isinstance(content, str) else json.dumps(content)
        self.files[layer].write_text(text)
        return self.files[layer]

    def load(self, *, trusted: bool = True, **request: Any) -> Settings:
        return load_settings(SettingsRequest(paths=self.paths, cwd=self.project, trusted=trusted, **request))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def texts(found: Settings) -> list[str]:
    return [problem.text for problem in found.problems]


# --------------------------------------------------------------------------------------------------------- layers


def test_without_any_file_the_defaults_apply_without_a_notice(world: World) -> None:
    found = world.load()
    assert found.problems == ()
    assert found.text("provider") == "auto"
    assert found.integer("maxRetries") == 10
    assert found.texts("permissions.deny") == ()
    assert found.where("maxRetries").label == "default"
    assert not found.rights_uncertain


def test_each_layer_overrides_the_ones_below_and_records_the_source(world: World) -> None:
    seen = []
    for layer in ("user", "project", "local"):
        world.write(layer, {"model": layer})
        seen.append((world.load().text("model"), world.load().where("model").layer))
    environ = {"AGENTCLI_MODEL": "variable", "ANTHROPIC_MODEL": "other"}
    found = world.load(environ=environ)
    seen.append((found.text("model"), found.where("model").layer))
    found = world.load(environ=environ, flag_text='{"model": "text"}')
    seen.append((found.text("model"), found.where("model").layer))
    found = world.load(environ=environ, flag_text='{"model": "text"}', flag_values={"model": ("--model", "flag")})
    seen.append((found.text("model"), found.where("model").layer))
    assert found.where("model").label == "--model"
    world.write("managed", {"model": "managed"})
    found = world.load(environ=environ, flag_values={"model": ("--model", "flag")})
    seen.append((found.text("model"), found.where("model").layer))
    assert seen == [
        ("user", Layer.USER),
        ("project", Layer.PROJECT),
        ("local", Layer.LOCAL),
        ("variable", Layer.ENVIRONMENT),
        ("text", Layer.FLAGS),
        ("flag", Layer.FLAGS),
        ("managed", Layer.MANAGED),
    ]


def test_rule_lists_add_up_strongest_first_and_without_doubles(world: World) -> None:
    world.write("user", {"permissions": {"deny": ["Read(.env)", "Bash(rm *)"]}})
    world.write("project", {"permissions": {"deny": ["Bash(rm *)", "WebFetch"]}})
    world.write("managed", {"permissions": {"deny": ["Bash(curl *)"]}})
    found = world.load()
    assert found.texts("permissions.deny") == ("Bash(curl *)", "Bash(rm *)", "WebFetch", "Read(.env)")
    assert [source.layer for _value, source in found.each("permissions.deny")] == ["managed", "project", "user"]


def test_a_list_of_fallback_models_replaces_the_one_below(world: World) -> None:
    world.write("user", {"fallbackModels": ["a", "b"]})
    world.write("project", {"fallbackModel": "c, d"})
    assert world.load().texts("fallbackModels") == ("c", "d")


def test_objects_combine_key_by_key(world: World) -> None:
    world.write("user", {"models": {"m": {"contextWindow": 1, "cap": 2}}, "env": {"A": "user", "B": "user"}})
    world.write("managed", {"models": {"m": {"cap": 3}, "n": {}}, "env": {"A": "managed"}})
    found = world.load()
    assert found.mapping("models") == {"m": {"contextWindow": 1, "cap": 3}, "n": {}}
    assert found.mapping("env") == {"A": "managed", "B": "user"}


def test_only_the_sources_asked_for_are_read_but_managed_always(world: World) -> None:
    for layer in world.files:
        world.write(layer, {"permissions": {"allow": [layer]}})
    assert world.load(sources=()).texts("permissions.allow") == ("managed",)
    assert world.load(sources=("user",)).texts("permissions.allow") == ("managed", "user")


def test_environment_variables_are_read_by_their_type_and_bad_ones_named(world: World) -> None:
    environ = {
        "CLAUDE_CODE_MAX_RETRIES": "3",
        "AGENTCLI_AUTO_COMPACT": "off",
        "AGENTCLI_FALLBACK_MODEL": "a,b",
        "AGENTCLI_EFFORT": "enormous",
        "AGENTCLI_MAX_TOOL_CONCURRENCY": "many",
        "AGENTCLI_STREAM_IDLE_TIMEOUT": "nan",
        "AGENTCLI_THINKING": "",
    }
    found = world.load(environ=environ)
    assert (found.integer("maxRetries"), found.boolean("autoCompact")) == (3, False)
    assert found.texts("fallbackModels") == ("a", "b")
    assert found.where("maxRetries").label == "environment variable CLAUDE_CODE_MAX_RETRIES"
    assert (found.text("effort"), found.integer("maxToolConcurrency")) == (None, 10)
    assert [text.split(" must")[0] for text in texts(found)] == [
        "The environment variable AGENTCLI_EFFORT",
        "The environment variable AGENTCLI_STREAM_IDLE_TIMEOUT",
        "The environment variable AGENTCLI_MAX_TOOL_CONCURRENCY",
    ]


def test_describe_lists_every_key_with_its_source_and_hides_the_values_of_variables(world: World) -> None:
    servers = {"db": {"command": "x", "env": {"TOKEN": "sk-secret"}}}
    path = world.write("user", {"env": {"ANTHROPIC_API_KEY": "sk-secret"}, "effort": "high", "mcpServers": servers})
    rows = {row.key: row for row in world.load().describe()}
    assert set(rows) == {key.name for key in KEYS}
    assert (rows["effort"].value, rows["effort"].source) == ("high", str(path))
    assert "sk-secret" not in repr(rows)


# ----------------------------------------------------------------------------------------------------- broken files


@pytest.mark.parametrize(
    ("content", "line", "column", "words"),
    [
        ('{\n  "model": "x",\n}', 2, 15, "remove the comma"),
        ('{"permissions": {"allow": ["Read" , ]}}', 1, 35, "remove the comma"),
        ('{\n  // no\n  "model": "x"\n}', 2, 3, "comments are not allowed"),
        ('{"model": }', 1, 11, "expecting value"),
        ("},", 1, 1, "expecting value"),
        ("{'model': 1}", 1, 2, "double quotes"),
        ('{"maxBudgetUsd": NaN}', None, None, "not a number"),
        ("[]", None, None, "one JSON object"),
        ("[" * 100_000, None, None, "nested more than"),
    ],
)
def test_broken_json_names_file_line_and_column_and_other_files_still_apply(
    world: World, content: str, line: int | None, column: int | None, words: str
) -> None:
    world.write("user", {"model": "from-user", "permissions": {"allow": ["Read"]}})
    path = world.write("project", content)
    found = world.load()
    assert found.text("model") == "from-user"
    assert found.rights_uncertain, "the file might have held deny rules"
    (problem,) = found.problems
    assert (problem.path, problem.line, problem.column) == (str(path), line, column)
    assert words in problem.text
    assert str(path) in problem.text
    assert path.read_text() == content


def test_pipes_and_devices_are_neither_waited_for_nor_read(world: World) -> None:
    os.mkfifo(world.files["project"])
    world.files["local"].mkdir()
    world.files["user"].write_bytes(b'{"model": "\xff"}')
    world.files["managed"].write_bytes('{"model": "x"}'.encode("utf-16"))
    found = world.load()
    assert found.rights_uncertain
    words = ("is UTF-16", "not a regular file", "not valid UTF-8")
    for word in words:
        assert any(word in text for text in texts(found)), (word, texts(found))


def test_a_byte_order_mark_and_an_empty_file_are_fine(world: World) -> None:
    world.files["user"].write_bytes(b'\xef\xbb\xbf{"model": "x"}')
    world.write("project", "\n")
    found = world.load()
    assert (found.text("model"), found.problems, found.rights_uncertain) == ("x", (), False)


def test_unknown_keys_warn_with_a_similar_name_and_wrong_types_with_the_right_one(world: World) -> None:
    world.write(
        "user",
        {
            "modle": "x",
            "maxTurns": "ten",
            "autoCompact": 1,
            "maxRetries": True,
            "effort": "huge",
            "contextWindow": 10**400,
            "permissions": {"alow": []},
            "permissions.deny": ["Read"],
            "$schema": "…",
            "model": "m",
        },
    )
    found = world.load()
    assert found.text("model") == "m"
    assert found.integer("maxTurns") is None
    joined = "\n".join(texts(found))
    for words in (
        "did you mean 'model'",
        "'maxTurns' must be a whole number",
        "'autoCompact' must be true or false",
        "'maxRetries' must be a whole number",
        "'effort' must be one of low",
        "'contextWindow' must be",
        "did you mean 'permissions.allow'",
    ):
        assert words in joined
    assert "$schema" not in joined
    assert found.texts("permissions.deny") == ()
    assert not found.rights_uncertain


@pytest.mark.parametrize(
    ("content", "deny"),
    [
        ({"permissions": []}, ()),
        ({"permissions": {"deny": "Read"}}, ()),
        ({"permissions": {"deny": ["Read", 1]}}, ("Read",)),
        ('{"permissions": {"deny": ["Read"], "deny": ["Bash"]}}', ("Bash",)),
    ],
)
def test_unreadable_deny_rules_make_everything_ask(world: World, content: Any, deny: tuple[str, ...]) -> None:
    world.write("project", content)
    for trusted in (True, False):
        found = world.load(trusted=trusted)
        assert found.rights_uncertain
        assert found.problems
        assert found.texts("permissions.deny") == deny


def test_settings_given_by_flag_must_be_right(world: World, tmp_path: Path) -> None:
    for text in ('{"model": }', "missing.json", '{"nonsense": 1}', '{"maxTurns": 0}'):
        with pytest.raises(UsageError, match=r"--settings|maxTurns"):
            world.load(flag_text=text)
    with pytest.raises(UsageError, match=r"--effort.* must be one of"):
        world.load(flag_values={"effort": ("--effort", "huge")})
    (world.project / "extra.json").write_text('{"model": "from-file"}')
    assert world.load(flag_text="extra.json").text("model") == "from-file"


# -------------------------------------------------------------------------------------------------------------- trust


def test_an_untrusted_folder_can_only_restrict_permissions(world: World) -> None:
    content = {
        "model": "theirs",
        "anything": 1,
        "permissions": {"allow": ["Bash"], "ask": ["Edit"], "deny": ["Read(.env)"], "defaultMode": "plan"},
    }
    world.write("project", content)
    world.write("local", content)
    found = world.load(trusted=False)
    assert found.text("model") is None
    assert found.texts("permissions.allow") == ()
    assert found.texts("permissions.ask") == ("Edit",)
    assert found.texts("permissions.deny") == ("Read(.env)",)
    assert found.text("permissions.defaultMode") == "default"
    assert [problem.level for problem in found.problems] == ["note", "note"]


def test_even_a_trusted_project_cannot_redirect_requests_keys_or_state(world: World) -> None:
    barred = {
        "baseUrl": "https://evil.example",
        "apiKeyHelper": "curl evil",
        "provider": "scripted",
        "platform": "bedrock",
        "env": {"ANTHROPIC_BASE_URL": "https://evil.example"},
        "models": {"m": {"prices": [0, 0]}},
    }
    world.write("project", {**barred, "model": "fine"})
    world.write("local", barred)
    found = world.load()
    assert found.text("model") == "fine"
    assert all(found.where(name).layer is Layer.DEFAULT for name in barred)
    assert sum("cannot be set by project settings" in text for text in texts(found)) == 2 * len(barred)


@pytest.mark.parametrize("layer", ["project", "local"])
@pytest.mark.parametrize("user", [None, *PermissionMode])
@pytest.mark.parametrize("theirs", list(PermissionMode))
def test_a_project_lowers_the_permission_mode_but_never_raises_it(
    world: World, layer: str, user: str | None, theirs: str
) -> None:
    order = ["plan", "dontAsk", "default", "acceptEdits", "auto", "bypassPermissions"]
    if user:
        world.write("user", {"permissions": {"defaultMode": user}})
    world.write(layer, {"permissions": {"defaultMode": theirs}})
    found = world.load()
    base = user or "default"
    raised = order.index(theirs) > order.index(base)
    assert found.text("permissions.defaultMode") == (base if raised else theirs)
    assert bool(found.problems) == raised


def test_a_project_lowers_the_budget_but_never_raises_it(world: World) -> None:
    world.write("user", {"maxBudgetUsd": 2})
    world.write("project", {"maxBudgetUsd": 50, "maxTurns": 5})
    assert (world.load().number("maxBudgetUsd"), world.load().integer("maxTurns")) == (2, 5)
    world.write("project", {"maxBudgetUsd": 1})
    assert world.load().number("maxBudgetUsd") == 1


# ------------------------------------------------------------------------------------------------------------- the rest


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
names = st.sampled_from([key.name.partition(".")[0] for key in KEYS] + ["other", "permissions.deny"])
inside = st.dictionaries(st.sampled_from(["allow", "ask", "deny", "defaultMode", "x"]), json_values)


@settings(max_examples=2 * EXAMPLES, derandomize=True, suppress_health_check=UNHURRIED_IN_ONE_FOLDER)
@given(content=st.dictionaries(names, json_values | inside, max_size=6), trusted=st.booleans())
def test_any_file_content_loads_with_values_of_the_right_type(
    tmp_path_factory: pytest.TempPathFactory, content: dict[str, Any], trusted: bool
) -> None:
    world = World(tmp_path_factory.mktemp("any"))
    world.write("project", content)
    world.write("user", content)
    found = world.load(trusted=trusted)
    for key in KEYS:
        value = found.get(key.name)
        assert value is None or parse_value(key, value) == value
        assert key.default is None or parse_value(key, key.default) == key.default
    assert len(found.describe()) == len(KEYS)


def test_paths_follow_the_variables_and_ignore_relative_ones() -> None:
    home = Path("/home/me")
    plain = Paths.from_environ({}, home)
    assert plain.user_settings == Path("/home/me/.config/agentcli/settings.json")
    assert plain.state_dir == Path("/home/me/.local/state/agentcli")
    assert plain.cache_dir == Path("/home/me/.cache/agentcli")
    moved = Paths.from_environ(
        {"XDG_CONFIG_HOME": "/x", "XDG_STATE_HOME": "relative", "AGENTCLI_CACHE_DIR": "/c", "HOME": "/h"}
    )
    assert (moved.config_dir, moved.state_dir, moved.cache_dir) == (
        Path("/x/agentcli"),
        Path("/h/.local/state/agentcli"),
        Path("/c"),
    )
    nowhere = Paths.from_environ({})
    assert (nowhere.config_dir, nowhere.state_dir, nowhere.user_settings) == (None, None, None)


def test_project_settings_are_found_up_to_the_root_of_the_repository_and_not_above(tmp_path: Path) -> None:
    inner = tmp_path / "shared" / "repo" / "package"
    inner.mkdir(parents=True)
    (tmp_path / "shared" / ".agentcli").mkdir()
    assert project_folder(inner) == inner / ".agentcli"
    (tmp_path / "shared" / "repo" / ".git").mkdir()
    assert project_folder(inner) == inner / ".agentcli"
    (tmp_path / "shared" / "repo" / ".agentcli").mkdir()
    assert project_folder(inner) == tmp_path / "shared" / "repo" / ".agentcli"
    (inner / ".agentcli").mkdir()
    assert project_folder(inner) == inner / ".agentcli"


@pytest.mark.parametrize("layer", ["project", "local"])
@pytest.mark.parametrize("git", [True, False])
def test_a_project_may_add_only_its_own_folders_as_working_directories(world: World, layer: str, git: bool) -> None:
    if git:
        (world.project / ".git").mkdir()
    (world.project / "lib").mkdir()
    (world.project / "out").symlink_to("/")
    outside = ["/", "..", "lib/../..", "out", "out/etc", str(world.project.parent), "a\0b"]
    inside = ["lib", str(world.project / "lib"), "not there yet"]
    path = world.write(layer, {"permissions": {"additionalDirectories": [*outside, *inside]}})
    found = world.load()
    assert found.texts("permissions.additionalDirectories") == tuple(inside)
    (problem,) = texts(found)
    assert problem.startswith(f"{path}: of 'permissions.additionalDirectories' '/', '..', ")
    assert "user settings" in problem


def test_a_package_may_name_its_neighbour_in_the_same_repository(world: World) -> None:
    (world.project.parent / ".git").mkdir()
    world.write("project", {"permissions": {"additionalDirectories": ["../neighbour", "/"]}})
    assert world.load().texts("permissions.additionalDirectories") == ("../neighbour",)


def test_the_user_may_add_any_working_directory(world: World) -> None:
    for layer in ("user", "managed"):
        world.write(layer, {"permissions": {"additionalDirectories": [f"/{layer}"]}})
    found = world.load(flag_text='{"permissions": {"additionalDirectories": ["/flag"]}}')
    assert set(found.texts("permissions.additionalDirectories")) == {"/user", "/managed", "/flag"}
    assert texts(found) == []


def test_importing_the_settings_stays_light() -> None:
    code = "import sys; import agentcli.config.settings; print('\\n'.join(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"difflib", "tomllib", "platformdirs", "asyncio", "subprocess", "agentcli.session"} & set(out)
