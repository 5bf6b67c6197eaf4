"""Start-up of the app: preferences, garbage collection, connecting a model, the guided tour."""
