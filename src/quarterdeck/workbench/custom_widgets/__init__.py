"""Widgets that are not ours: files of the person or source from an agent, run only once approved.

They run in this process with the person's rights; nothing here is a sandbox. What is here keeps a
mistake in one of them from harming the rest: an error, an exit or an endless loop ends in a box
where the widget would be.
"""
