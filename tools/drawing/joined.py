"""Characters that are made of several, on which emulators differ, to be recorded."""

import sys

LINES = [
    "joined |👩\u200d👩\u200d👧|",
    "toned |👍🏽|",
    "coloured |✈\ufe0f|❤\ufe0f|",
    "as text |👍\ufe0e|",
    "flags |🇩🇪|🇳🇴🇯🇵|",
    "keycap |1\ufe0f\u20e3|",
]
sys.stdout.write("\r\n".join(LINES) + "\r\n")
sys.stdout.flush()
