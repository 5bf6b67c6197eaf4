"""Parts that plugins add to a session: tools, hooks, context steps, renderers; and reloading them."""
