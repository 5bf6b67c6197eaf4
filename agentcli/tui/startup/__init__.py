"""What is settled around the first paint: preferences, garbage collection, connecting a model, the guided tour."""
