"""What is shown, as plain objects: no rule, no input, no output, no Textual."""
