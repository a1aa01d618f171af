"""What a person reads: the terminal, tables, and the HTML page of reports."""
