"""A theme: green on near black."""

from agentcli import Plugin

plugin = Plugin()
plugin.theme(
    "moss",
    {
        "description": "Green on near black",
        "extends": "dark",
        "colors": {"background": "#10140f", "accent": "#8fce72"},
    },
)
