"""Derives all shades from the few colours of a theme: styles of blocks and variables of Textual's CSS.

Missing colours are blended from the given ones and adjusted until they are readable; given colours are not changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.style import Style

from agentcli.core.frozen import frozen
from agentcli.tui.theme.colours import BLACK, TERMINAL, WHITE, Colour, Rgb, blend, is_light, parse_look, readable

ASSUMED_DARK: Rgb = (0x14, 0x16, 0x1B)
ASSUMED_LIGHT: Rgb = (0xFC, 0xFC, 0xFC)
"""Assumed background of the terminal until it reports one."""

MEANINGS: Mapping[str, str] = {
    "success": "green",
    "warning": "yellow",
    "error": "red",
    "added": "green",
    "removed": "red",
}
"""Colours with a meaning, and their usual hue. Diff colours are only blended into the background of text."""

_BLENDED: Mapping[str, tuple[str, float]] = {
    "muted": ("foreground", 0.62),
    "faint": ("foreground", 0.42),
    "rule": ("foreground", 0.24),
    "surface": ("foreground", 0.055),
    "raised": ("foreground", 0.10),
    "selection": ("accent", 0.30),
}
"""Shades blended from a colour and the background."""

LOOKS: Mapping[str, str] = {
    "text": "foreground",
    "muted": "muted",
    "faint": "faint",
    "accent": "accent",
    "user": "bold foreground",
    "user_mark": "bold accent",
    "thinking": "italic muted",
    "rule": "rule",
    "surface": "foreground on surface",
    "chip": "accent on raised",
    "heading": "bold accent",
    "strong": "bold",
    "emphasis": "italic",
    "strike": "strike",
    "code": "cyan",
    "code_block": "foreground on surface",
    "link": "underline blue",
    "quote": "italic muted",
    "bullet": "accent",
    "table": "faint",
    "tool": "bold foreground",
    "running": "yellow",
    "success": "success",
    "warning": "warning",
    "error": "error",
    "info": "muted",
    "hunk": "cyan",
    "selection": "on selection",
}
"""Styles of the palette, except foreground and background pairs, which are computed."""

PAIRS = ("added", "removed", "added_word", "removed_word", "match", "match_current")

SYNTAX: Mapping[str, str] = {
    "keyword": "purple",
    "string": "green",
    "number": "orange",
    "comment": "italic muted",
    "function": "blue",
    "type": "yellow",
    "builtin": "cyan",
    "operator": "foreground",
    "name": "foreground",
    "decorator": "pink",
    "constant": "orange",
    "tag": "red",
    "attribute": "yellow",
    "escape": "pink",
    "added": "success",
    "removed": "error",
    "heading": "bold accent",
}


_MARKERS: tuple[Rgb, Rgb] = ((0xFF, 0xE0, 0x82), (0xFF, 0xB7, 0x4D))


@frozen
class Shades:
    colours: Mapping[str, Colour]
    """Colours by the names that styles may use."""
    background: Colour
    ground: Rgb
    """Its actual or assumed RGB value."""
    dark: bool

    @classmethod
    def of(cls, named: Mapping[str, Colour], dark: bool, terminal: Rgb | None = None) -> Shades:
        """`terminal`: the background that the terminal reported."""
        foreground = named["foreground"]
        background, ground = named["background"], named["background"].rgb
        if ground is None:
            ground = ASSUMED_DARK if dark else ASSUMED_LIGHT
            if foreground.rgb is not None and terminal is not None and is_light(terminal) == dark:
                # A dark theme on a light terminal, or the reverse, would be unreadable on the terminal's background.
                background = Colour(ground)
            elif terminal is not None:
                ground = terminal
        colours = {"purple": named["blue"], "pink": named["red"], **named, "background": background}
        for name, (hue, share) in _BLENDED.items():
            above = colours[hue].rgb
            blended = TERMINAL if above is None else Colour(blend(ground, above, share))
            colours.setdefault(name, blended)
        for name, hue in MEANINGS.items():
            colours.setdefault(name, colours[hue])
        return cls(colours, background, ground, dark)

    def look(self, text: str) -> Style:
        style = parse_look(text, self.colours)
        assert isinstance(style, Style), text  # themes are checked when they are read
        return style

    def styles(self, own: Mapping[str, str]) -> dict[str, Any]:
        """Every style of the palette by field name; `own` are the theme's own definitions."""
        made = {name: self.look(text) for name, text in {**LOOKS, **own}.items()}
        for name in PAIRS:
            if name not in made:
                made[name] = self._pair(name)
        return made

    def _pair(self, name: str) -> Style:
        bold = name.endswith(("_word", "_current"))
        if name.startswith("match"):
            hue = self.colours["orange" if bold else "yellow"]
            # Hues of a light theme are dark enough to be text; a highlighter is not.
            behind = hue if self.dark or hue.rgb is None else Colour(_MARKERS[bold])
            text = None if behind.rgb is None else readable(self.ground if self.dark else BLACK, behind.rgb, 4.5)
        else:
            hue = self.colours[name.removesuffix("_word")]
            if hue.rgb is None:
                return Style(color=hue.rich, bold=bold or None, reverse=bold or None)
            behind = Colour(blend(self.ground, hue.rgb, 0.38 if bold else 0.18))
            assert behind.rgb is not None
            foreground = self.colours["foreground"].rgb or (WHITE if self.dark else BLACK)
            text = readable(blend(hue.rgb, foreground, 0.6), behind.rgb, 7.0)
        if text is None:
            return Style(color=behind.rich, bold=bold or None, reverse=True)
        return Style(color=Colour(text).rich, bgcolor=behind.rich, bold=bold or None)

    def variables(self) -> dict[str, str]:
        """Variables for Textual's CSS: ours ($muted, $faint, $rule, $raised, $user …), and Textual's own that matter.

        All are opaque. Includes all variables that `ansi` themes leave undefined: the app would crash if a widget's
        rule used a missing one.
        """
        css = {name: colour.css for name, colour in self.colours.items()}
        text, muted, faint, accent = css["foreground"], css["muted"], css["faint"], css["accent"]
        surface, raised, selection = css["surface"], css["raised"], css["selection"]
        native = self.colours["foreground"].rgb is None
        """Shades may equal the background, so marked text needs other attributes too."""
        marked = "ansi_bright_white" if native and selection != "ansi_default" else text
        # Textual's OptionList drops `reverse`, so the row under the cursor is also underlined.
        turned = "bold underline reverse" if selection == "ansi_default" else "bold"
        reverse = "reverse" if selection == "ansi_default" else "none"
        hues = ("red", "orange", "yellow", "green", "cyan", "blue", "purple", "pink")
        own = ("muted", "faint", "rule", "raised", "selection", "added", "removed")
        by_value = (
            (accent, "user text-primary link-color-hover"),
            (text, "text ansi-foreground block-cursor-blurred-foreground input-cursor-background"),
            (muted, "text-muted text-secondary foreground-muted scrollbar-active"),
            (faint, "text-disabled foreground-disabled scrollbar-hover"),
            (css["rule"], "border border-blurred scrollbar"),
            (css["background"], "scrollbar-background scrollbar-background-hover scrollbar-background-active"),
            (css["background"], "scrollbar-corner-color input-cursor-foreground"),
            (surface, "surface surface-darken-1 panel-darken-1 boost"),
            (raised, "surface-active surface-lighten-1 panel panel-lighten-1 ansi-background"),
            (raised, "block-hover-background block-cursor-blurred-background link-background-hover"),
            (raised, "primary-muted secondary-muted success-muted warning-muted error-muted accent-muted"),
            (selection, "block-cursor-background input-selection-background screen-selection-background"),
            (marked, "block-cursor-foreground input-selection-foreground screen-selection-foreground"),
            (css["blue"], "link-color"),
            ("transparent", "link-background"),
            ("underline", "link-style"),
            ("bold underline", "link-style-hover"),
            (turned, "cursor-style block-cursor-text-style"),
            (reverse, "selection-style"),
            ("reverse" if native else "none", "input-cursor-text-style"),
            ("underline" if native else "none", "block-cursor-blurred-text-style"),
        )
        return {
            **{f"hue-{name}": css[name] for name in hues},
            **{name: css[name] for name in own},
            **{f"text-{name}": css[name] for name in ("success", "warning", "error", "accent")},
            **{name: value for value, names in by_value for name in names.split()},
        }
