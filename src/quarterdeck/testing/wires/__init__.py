"""What vendors' model servers speak, from the server's side: one module per form."""
