"""The start of the app: preferences, the first session, connecting a model, garbage collection, the guided tour."""
