"""The tables of operators: each row is a function and the inputs that it gets."""
