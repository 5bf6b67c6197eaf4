"""Configuration files keep their settings for commands, without the secrets in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentcli.sandbox.filtered_files import FilteredCopies, filter_git, filter_json, filter_lines, filter_xml
from agentcli.sandbox.plan import find_masks
from tests.sandbox.box import SECRET, Box
from tests.support.tables import each_row

NPMRC = f"""registry=https://npm.example/
//npm.example/:_authToken={SECRET.replace(" ", "")}
_auth=abc
//npm.example/:_password="eA=="
always-auth=true
proxy=http://me:{SECRET.replace(" ", "")}@proxy.example:3128
; //old.example/:_authToken={SECRET.replace(" ", "")}
email=me@example.org
"""


def test_npm_keeps_its_registry_and_loses_its_tokens() -> None:
    text = filter_lines(NPMRC)
    assert text is not None
    assert text.splitlines() == [
        *("registry=https://npm.example/", "always-auth=true", "proxy=http://proxy.example:3128"),
        "email=me@example.org",
    ]


@each_row(
    ("text", "kept"),
    [
        ("[global]\nindex-url = https://u:p@x.example/simple\n", "[global]\nindex-url = https://x.example/simple\n"),
        (
            "[global]\nextra-index-url =\n    https://t0k@x.example/s\n    https://y.example/s\n",
            "[global]\nextra-index-url =\n    https://x.example/s\n    https://y.example/s\n",
        ),
        ("[pypi]\nusername = __token__\npassword = pypi-AgEIcHlwaS5vcmcCJDAw\n", "[pypi]\nusername = __token__\n"),
        (
            'npmRegistryServer: "https://x"\nnpmAuthToken: "t"\nnodeLinker: pnp\n',
            'npmRegistryServer: "https://x"\nnodeLinker: pnp\n',
        ),
        (
            'npmRegistries:\n  "https://x":\n    npmAuthToken: |\n      first\n      second\n    npmAlwaysAuth: true\n',
            'npmRegistries:\n  "https://x":\n    npmAlwaysAuth: true\n',
        ),
        ('npmScopes: {a: {npmAuthToken: "t"}}\nx: 1\n', "x: 1\n"),
        (
            "org.gradle.jvmargs=-Xmx2g\nnexusPassword=abc\\\n  def\nsigning.keyId=24\n",
            "org.gradle.jvmargs=-Xmx2g\nsigning.keyId=24\n",
        ),
        ("the secret alone\n", "\n"),
    ],
)
def test_entries_with_secrets_are_removed_and_others_stay(text: str, kept: str) -> None:
    assert filter_lines(text) == kept


def test_git_keeps_name_and_aliases_and_loses_headers_helpers_and_addresses_with_tokens() -> None:
    text = filter_git(
        "[user]\n\tname = Me\n\temail = me@example.org\n\tsigningkey = ABCDEF01\n[alias]\n\tst = status\n"
        '[http "https://x.example"]\n\textraheader = Authorization: Basic QWxhZGRpbjpvcGVu\n'
        '[url "https://me:tok@git.example/"]\n\tinsteadOf = gh:\n'
        '[credential]\n\thelper = "!f() { echo password=x; }; f"\n'
    )
    assert text is not None
    assert "name = Me" in text
    assert "st = status" in text
    assert "email = me@example.org" in text
    assert '[url "https://git.example/"]' in text
    for secret in ("Basic", "tok@", "password=x"):
        assert secret not in text


def test_docker_keeps_its_settings_and_loses_its_logins() -> None:
    text = filter_json(
        json.dumps(
            {
                "auths": {"r.example": {"auth": "YWxhZGRpbg=="}},
                "credsStore": "desktop",
                "HttpHeaders": {"X": "y"},
                "proxies": {"default": {"httpProxy": "http://u:p@proxy.example:1"}},
                "plugins": {"x": {"enabled": "true"}},
                "experimental": True,
            }
        )
    )
    assert text is not None
    assert json.loads(text) == {
        "proxies": {"default": {"httpProxy": "http://proxy.example:1"}},
        "plugins": {"x": {"enabled": "true"}},
        "experimental": True,
    }


def test_xml_loses_its_accounts_and_invalid_xml_is_hidden() -> None:
    text = filter_xml(
        "<settings><mirrors><mirror><url>https://u:p@x.example</url></mirror></mirrors>"
        "<!-- <password>old</password> --><servers><server><password>x</password></server></servers></settings>"
    )
    assert text == "<settings><mirrors><mirror><url>https://x.example</url></mirror></mirrors></settings>"
    assert filter_xml("no xml") is None
    assert filter_xml('<!DOCTYPE x [<!ENTITY p "x">]><settings/>') is None


def test_a_file_without_secrets_is_shown_unchanged_and_a_link_is_hidden(tmp_path: Path) -> None:
    copies = FilteredCopies(tmp_path / "copies")
    plain = tmp_path / "plain"
    plain.write_text("registry=https://npm.example/\n")
    assert copies.copy_of(plain, filter_lines) == plain
    plain.write_text("_auth=x\n")
    copy = copies.copy_of(plain, filter_lines)
    assert copy is not None
    assert copy != plain
    assert copy.read_text() == "\n"
    (tmp_path / "link").symlink_to(plain)
    assert copies.copy_of(tmp_path / "link", filter_lines) is None


@pytest.mark.anyio
async def test_commands_see_the_settings_and_not_the_secrets(box: Box) -> None:
    (box.home / ".npmrc").write_text(NPMRC)
    (box.home / ".gitconfig").write_text(
        '[user]\n\tname = Me\n[url "https://me:tok@git.example/"]\n\tinsteadOf = gh:\n'
    )
    (box.home / ".docker").mkdir()
    (box.home / ".docker" / "config.json").write_text('{"auths": {"x": {"auth": "c2VjcmV0"}}, "detachKeys": "ctrl-q"}')
    text = await box.text("cd ~ && cat .npmrc .docker/config.json; git config --global --list")
    assert "registry=https://npm.example/" in text
    assert "user.name=Me" in text
    assert "detachKeys" in text
    for secret in ("authToken", SECRET.replace(" ", ""), "tok@", "c2VjcmV0"):
        assert secret not in text


@pytest.mark.anyio
async def test_git_still_finds_its_settings_when_the_project_is_the_home_folder(box: Box) -> None:
    (box.home / ".gitconfig").write_text("[user]\n\tname = Me\n")
    text = await box.with_rules(working_dirs=(box.home, box.project)).text("git config --global user.name")
    assert text == "Me"


def test_a_file_with_two_names_is_filtered_as_the_later_one_in_the_table(box: Box) -> None:
    file = box.home / "shared"
    file.write_text(SECRET)
    (box.home / ".npmrc").symlink_to(file)
    assert find_masks(box.rules).filters == {file: filter_lines}
    (box.home / ".config" / "hub.yml").symlink_to(file)
    masks = find_masks(box.rules)
    assert masks.filters == {}
    assert file in masks.all
