"""The parts of the engine that need no database: group commit, the waiting room, the rules."""
