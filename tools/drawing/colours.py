"""Colours and attributes in all the ways to write them, to be recorded."""

import sys

write = sys.stdout.write
for row in range(4):
    for column in range(72):
        red, green, blue = column * 3, row * 60, 255 - column * 3
        write(f"\x1b[38;2;{red};{green};{blue};48;2;{blue};{red};{green}m▀")
    write("\x1b[0m\r\n")
for first in (0, 16, 120, 232):
    write("".join(f"\x1b[48;5;{first + n}m{n:3}" for n in range(24)) + "\x1b[0m\r\n")
write("".join(f"\x1b[{n}m{n:4}" for n in (*range(30, 38), *range(90, 98))) + "\x1b[0m\r\n")
write("".join(f"\x1b[{n}m{n:4}" for n in (*range(40, 48), *range(100, 108))) + "\x1b[0m\r\n")
for n, name in ((1, "bold"), (3, "italic"), (4, "underlined"), (7, "inverse")):
    write(f"\x1b[{n}m{name}\x1b[2{2 if n == 1 else n}m off ")
write("\r\n\x1b[38:2::10:20:30mcolons\x1b[39m \x1b[48:5:99mcolons\x1b[49m ")
write("\x1b[1;31;42;7mall\x1b[27m but\x1b[22m less\x1b[39m and\x1b[49m less\x1b[0m\r\n")
write("\x1b[44m\x1b[K\r\n\x1b[mfilled \x1b[45m\x1b[K\x1b[m\r\n")
write("\x1b[41mred\x1b[m\x1b[5Cgap\x1b[41m!\x1b[m\r\n")
write("\x1b[4munder\x1b[m\x1b[3C\x1b[4mlined\x1b[m\r\n")
sys.stdout.flush()
