"""Boxes and buttons that can be told on from off without colour."""

from textual.content import Content
from textual.widgets import Checkbox, RadioButton

__all__ = ["Choice", "Mark"]


class Mark(Checkbox):
    """On is a cross, off is nothing."""

    def render(self) -> Content:
        """Draw the box as it is now."""
        self.BUTTON_INNER = "x" if self.value else " "
        return super().render()


class Choice(RadioButton):
    """On is a dot, off is nothing."""

    def render(self) -> Content:
        """Draw the button as it is now."""
        self.BUTTON_INNER = "●" if self.value else " "
        return super().render()
