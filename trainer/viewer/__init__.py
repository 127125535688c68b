"""Pages on this machine that show what runs recorded: curves, lists, trees, turns, tokens, state graphs, comparisons."""
