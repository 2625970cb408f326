"""The parts of the engine that need no database: fusion, the waiting room, the rules."""
