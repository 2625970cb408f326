"""The memory: each verb's statements, in batches. Decides nothing; see rowq.model.lifecycle for the rules."""
