"""The figure of who signs a segment and who checks it."""

from __future__ import annotations

from svg import BLUE, GREEN, GREY, PALE_BLUE, RED, Drawing


def protection() -> Drawing:
    """Keys, signatures and checks on the way of one sum."""
    drawing = Drawing(
        900,
        400,
        "The run's authority certifies each node's key. The controller seals the group's key to "
        "members and switches. A host signs its contribution, the switch verifies it, adds, and "
        "signs the sum, and every host verifies the sum. Packets of strangers are dropped.",
    )
    drawing.box(310, 24, 280, 62)
    drawing.text(450, 49, "controller, authority of the run", bold=True)
    drawing.text(450, 71, "certifies nodes, seals the group's key", size=13)
    for x, y, name, lines in (
        (40, 190, "host h0", ("signs its contribution", "with the group's key")),
        (330, 190, "switch s0", ("verifies contributions, adds,", "signs the sum")),
        (620, 190, "host h1", ("verifies the sum", "before it delivers it")),
    ):
        is_switch = name.startswith("switch")
        drawing.box(
            x,
            y,
            240,
            84,
            fill=PALE_BLUE if is_switch else "#f6f8fa",
            stroke=BLUE if is_switch else GREY,
        )
        drawing.text(x + 120, y + 26, name, bold=True)
        for number, line in enumerate(lines):
            drawing.text(x + 120, y + 48 + 19 * number, line, size=13)
        drawing.line([(450, 88), (x + 120, 186)], colour=GREY, width=2, arrow=True, dashed=True)
    drawing.text(258, 128, "group's key, sealed", size=13, colour=GREY, anchor="end")
    drawing.line([(282, 232), (326, 232)], colour=BLUE, arrow=True)
    drawing.line([(572, 232), (616, 232)], colour=GREEN, arrow=True)
    drawing.text(304, 222, "g0", size=13, colour=BLUE)
    drawing.text(594, 222, "Σ 0-1", size=13, colour=GREEN)
    drawing.box(305, 316, 290, 58, fill="#ffebe9", stroke=RED)
    drawing.text(450, 340, "a program without the key", bold=True)
    drawing.text(450, 360, "dropped and counted: unknown_key", size=13)
    drawing.line([(450, 314), (450, 280)], colour=RED, arrow=True)
    return drawing
