"""Whatever comes in from outside, made up by the thousand: nothing breaks, nothing is lost, and what failed once is tried for ever."""
