"""Characters of every width, each between bars that show where it ends, to be recorded."""

import sys

LINES = [
    "Latin |é|ñ|ß|  combining |e\u0301|a\u0308\u0323|o\u0302|",
    "CJK |你|好|日本語|한국어|ｆｕｌｌ|ﾊﾝｶｸ|",
    "at the margin " + "x" * 65 + "你好|",
    "lines |─│┌┐└┘├┤┬┴┼━┃╭╮╰╯═║|█▉▊▋▌▍▎▏▐░▒▓|",
    "emoji |👍|😀|🚀|🦀|  text |✈|☎|❤|✔|",
    "Thai |กำ|  Hindi |नी|  Arabic |سلام|  Hebrew |שלום|",
    "zero width |a\u200bb|  soft hyphen |a\u00adb|",
    "tabs\tare\there\t|",
    "greek |αβγ|  cyrillic |жз|  braille |⠿⠇|  powerline |\ue0b0\ue0b2|",
]
sys.stdout.write("\r\n".join(LINES) + "\r\n")
sys.stdout.write("\x1b(0lqqqwqqqk\r\nx   x   x\r\nmqqqvqqqj\x1b(B\r\n")
sys.stdout.write(
    "你好你好\x1b[1;1H\x1b[12;2HX\x1b[12;5HY\x1b[14;1Hover the halves of wide ones\r\n"
)
sys.stdout.flush()
