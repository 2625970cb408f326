"""The store on SQLite: its statements, plans and schema, and what it makes of broken files, full disks and busy neighbours."""
