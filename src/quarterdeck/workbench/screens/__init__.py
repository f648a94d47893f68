"""Screens that come over the others: requests, questions, help, forms."""
