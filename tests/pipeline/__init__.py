"""The data pipeline: lake, reports, replays."""
