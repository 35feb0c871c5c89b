#!/usr/bin/env python3
"""Draws docs/images/mesh.svg and pipelines.svg anew: `docs/images/pictures.py` from the project's root, after a build. The schedules are those
that `weft plan` prints."""
import os, re, subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WEFT = os.environ.get("WEFT", "build/cpu/weft")
COLOURS = ("#4878a8", "#d88c4a", "#6aa56e", "#a46aa0")
TEXT, LINE = "#303030", "#ffffff"


class Svg:
    def __init__(self):
        self.items, self.width, self.height = [], 0, 0

    def box(self, x, y, width, height, colour, opacity=1.0):
        self.items.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{colour}" fill-opacity="{opacity:g}" stroke="{LINE}"/>')
        self.width, self.height = max(self.width, x + width), max(self.height, y + height)

    def text(self, x, y, words, anchor="start", colour=TEXT, size=13, bold=False):
        weight = ' font-weight="bold"' if bold else ""
        self.items.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{colour}" font-size="{size}"{weight}>{words}</text>')
        self.height = max(self.height, y + 4)

    def write(self, path, title):
        with open(os.path.join(ROOT, "docs/images", path), "w", encoding="utf-8") as file:
            file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width + 12:g}" height="{self.height + 12:g}" font-family="sans-serif">\n'
                       f"<title>{title}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n" + "\n".join(self.items) + "\n</svg>\n")


def cuts(svg, x, y, name, what, boxes, lines):
    """One panel: a name, what is cut, its boxes and what it says of them."""
    svg.text(x, y, name, bold=True, size=15)
    svg.text(x, y + 18, what)
    for box in boxes:
        svg.box(x + box[0], y + 30 + box[1], *box[2:])
    for i, line in enumerate(lines):
        svg.text(x, y + 165 + 16 * i, line, size=12)


def draw_mesh():
    """What each axis cuts, over four ranks, which have a colour each."""
    svg = Svg()
    layers, wide = 4, 150
    cuts(svg, 12, 24, "data (fsdp)", "each layer's state, and the batch",
         [(0, 30 * l, wide, 26, "#d0d0d0") for l in range(layers)] +
         [(i * wide / 4, 30 * l, wide / 4, 26, c) for l in range(layers) for i, c in enumerate(COLOURS)],
         ("A rank has a part of every layer: it is", "gathered for its turn, its gradient", "reduced. Each rank has own sequences."))
    cuts(svg, 282, 24, "pipe", "the layers",
         [(0, 30 * l, wide, 26, c) for l, c in enumerate(COLOURS)],
         ("A rank has some layers, and sends", "activations to the next. It waits until", "the first microbatch comes through."))
    cuts(svg, 552, 24, "tensor", "each matrix; tokens between them",
         [(i * wide / 4, 30 * l, wide / 4 - 3, 26, c) for l in range(layers) for i, c in enumerate(COLOURS)],
         ("A rank computes with its part of each", "matrix. Activations are gathered and", "summed in each block: inside a host."))
    sections = [0, 1, 2, 3, 3, 2, 1, 0]
    cuts(svg, 822, 24, "context", "the tokens of each sequence",
         [(i * wide / 8, 30 * s, wide / 8, 26, COLOURS[rank]) for s in range(layers) for i, rank in enumerate(sections)],
         ("A rank has two sections of each", "sequence. Keys and values are gathered.", "State is cut over these ranks, too."))
    svg.width = max(svg.width, 822 + 245)
    svg.write("mesh.svg", "What the axes data, pipe, tensor and context cut, over four ranks")


def schedule(kind, chunks, microbatches, ranks):
    sets = [f"parallel.mesh={{ pipe = {ranks} }}", "data.batch=1", f"data.global_batch={microbatches}", f"pipeline.schedule={kind}",
            f"pipeline.chunks={chunks}"]
    text = subprocess.run([WEFT, "plan", "inputs/bench_33m.toml", "--world", str(ranks), *(x for s in sets for x in ("--set", s))], cwd=ROOT,
                          text=True, capture_output=True, check=True).stdout
    return [line.split()[2:] for line in text.splitlines() if re.match(r"  rank \d+ +[F.]", line)]


def draw_pipelines():
    svg, y, unit = Svg(), 24, 26
    kinds = {"F": COLOURS[0], "B": COLOURS[2], "W": COLOURS[1]}
    for kind, chunks in (("gpipe", 1), ("1f1b", 1), ("interleaved", 2), ("zb_h1", 1), ("zbv", 2)):
        svg.text(12, y, kind + (f", {chunks} stages a rank" if chunks > 1 else ""), bold=True, size=14)
        width = unit / chunks
        for rank, cells in enumerate(schedule(kind, chunks, 4, 4)):
            top = y + 8 + 22 * rank
            svg.text(12, top + 15, f"rank {rank}", size=12)
            for i, cell in enumerate(cells):
                if cell == "..." or cell == ".":
                    continue
                second = cell.endswith("b")
                svg.box(64 + i * width, top, width, 20, kinds[cell[0]], 0.55 if second else 1)
                svg.text(64 + (i + 0.5) * width, top + 14, cell[1:].rstrip("b"), "middle", "#ffffff" if not second else TEXT, 10)
        y += 8 + 22 * 4 + 28
    svg.text(12, y, "Blue: forward, green: backward (in zb_h1 and zbv: the part that the stage before waits for), orange: weight gradients; the number is the", size=12)
    svg.text(12, y + 16, "microbatch, pale are a rank's second stages, which take half as long. White: the rank waits. Each kind of work is drawn as long as the others.", size=12)
    svg.width = max(svg.width, 880)
    svg.write("pipelines.svg", "Five pipeline schedules of 4 ranks and 4 microbatches, as weft plan prints them")


draw_mesh()
draw_pipelines()
