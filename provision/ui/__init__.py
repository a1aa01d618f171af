"""Output for people: the console, a view per result of a verb, and the HTML page of reports."""
