"""The routes that are not hot: a file for each noun."""
