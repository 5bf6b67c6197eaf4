"""What the plugins of a session add to it: tools, hooks, context steps, renderers; and their reload."""
