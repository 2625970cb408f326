"""Why rowq can be trusted, for whoever wants to see it for himself: `make torture`, `make sabotage`, `make soak`."""
