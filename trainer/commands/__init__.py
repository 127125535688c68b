"""One file per verb of the command line; importing one imports nothing heavy."""
