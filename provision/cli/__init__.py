"""The command line: the parser and one handler per verb."""
