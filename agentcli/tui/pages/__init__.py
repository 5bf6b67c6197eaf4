"""Pages to read and search: context, cost, help, permissions, settings, tasks."""
