"""Full-screen pages to read and search: agent, context, cost, diff, help, hooks, MCP, permissions, settings, tasks."""
