"""The pictures of the docs but that of the rooms: `python -m tests.docs.pictures` draws them."""

from tests.docs.page import DOCS
from tests.docs.svg import LINE, Drawing

FOLDER = DOCS / "pictures"


def data_flow() -> Drawing:
    """From the API to a commit, and from the commit to the next run."""
    picture = Drawing(
        820, 400, "How data flows: the state plans slices, tasks read pages, rows and state land in one commit"
    )
    picture.text(30, 28, "driver: plans, and is the only writer of state", style="title")
    picture.box(30, 50, 170, 60, "state", "of the table, or of --state")
    picture.box(330, 50, 190, 60, "CheckpointReader", "partition → position", style="blue")
    picture.box(640, 50, 150, 60, "one commit", "rows and state", style="green")
    picture.arrow((200, 80), (330, 80), label="restored")
    picture.arrow((520, 80), (640, 80), label="get_checkpoint()")
    picture.line((20, 150), (800, 150), style="dashed")
    picture.text(125, 172, "executor: this thread, a pool, or a task of Spark", style="title")
    for n, (name, what) in enumerate(
        [("request", "auth, budget, retries"), ("decode", "JSON, CSV, XML ..."), ("extract", "records of the page")]
    ):
        picture.box(30 + n * 165, 200, 145, 60, name, what)
        if n:
            picture.arrow((10 + n * 165, 230), (30 + n * 165, 230))
    picture.box(525, 200, 115, 60, "page", "records, position", style="blue")
    picture.arrow((505, 230), (525, 230))
    picture.arrow((375, 110), (375, 130), (102, 130), (102, 200), label="Slice: partition, window, where to begin")
    picture.arrow((582, 200), (582, 130), (475, 130), (475, 110), label="observe(position)")
    picture.box(180, 320, 180, 54, "JSON lines", "spark-cdk read")
    picture.box(390, 320, 180, 54, "Arrow → Parquet", "spark-cdk sync", style="green")
    picture.box(600, 320, 180, 54, "a list", "cdk.testing.read")
    for x in (270, 480, 690):
        picture.arrow((582, 260), (582, 290), (x, 290), (x, 320))
    picture.arrow((570, 340), (585, 340), (585, 300), (715, 300), (715, 110), style="dashed")
    return picture


def life_of_a_slice() -> Drawing:
    """Who does what with one slice, from the state to the commit."""
    names = (("driver", "CheckpointReader"), ("task", "read_slice"), ("API", ""), ("table", "Delta"))
    columns = (110, 330, 530, 720)
    steps = [
        (3, 0, "state: where each partition stands", ""),
        (0, 1, "next() → Slice, with where to begin", ""),
        (1, 2, "GET page 1", ""),
        (2, 1, "records, next page", ""),
        (1, 3, "Parquet file, which nobody sees yet", "dashed"),
        (1, 2, "GET page 2", ""),
        (2, 1, "records, the last page", ""),
        (1, 3, "Parquet file", "dashed"),
        (1, 0, "files, rows, position: Done", ""),
        (0, 0, "observe(slice, position)", ""),
        (0, 3, "one commit: these files, and the state that covers them", ""),
    ]
    height = 110 + 38 * len(steps)
    picture = Drawing(
        820, height, "The life of a slice: planned by the driver, read by a task, committed with its state"
    )
    for x, (name, what) in zip(columns, names, strict=True):
        picture.box(
            x - 75, 20, 150, 44, *([name, what] if what else [name]), style="blue" if name == "driver" else "box"
        )
        picture.line((x, 64), (x, height - 20), style="dashed")
    for n, (begin, end, label, style) in enumerate(steps):
        y = 104 + 38 * n
        x1, x2 = columns[begin], columns[end]
        if begin == end:
            picture.arrow((x1, y - 8), (x1 + 40, y - 8), (x1 + 40, y + 8), (x1, y + 8))
            picture.text(x1 + 50, y, label, style="small")
        else:
            picture.arrow((x1, y), (x2, y), label=label, style=style)
    return picture


def crash_and_resume() -> Drawing:
    """A run that is killed between two commits, and the run after it."""
    picture = Drawing(820, 390, "A crash and its resume: what was committed stays, what was not is read again")
    left, step = 130, 78
    picture.text(20, 50, "first run", style="title")
    picture.text(20, 210, "second run", style="title")
    picture.text(20, 340, "table", style="title")
    for page in range(1, 6):
        style = "green" if page <= 3 else "red"
        picture.box(left + (page - 1) * step, 30, step - 10, 40, f"page {page}", style=style)
    cut = left + 5 * step
    picture.line((cut, 20), (cut, 80), style="cut")
    picture.text(cut + 12, 40, "kill -9", style="title")
    picture.text(cut + 12, 40 + LINE, "pages 4 and 5 were written to files", "that no commit names", style="small")
    commit = left + 3 * step - 5
    picture.arrow((commit, 74), (commit, 300))
    picture.text(commit + 8, 108, "commit 1: rows of pages 1 to 3, state {page: 4}", style="small")
    picture.arrow((commit + 60, 300), (commit + 60, 232))
    picture.text(commit + 68, 268, "the state says where to resume", style="small")
    for page in range(4, 9):
        style = "blue" if page <= 5 else "green"
        x = left + (page - 1) * step
        picture.box(x, 190, step - 10, 40, f"page {page}", *(["again"] if page <= 5 else []), style=style)
    end = left + 8 * step - 5
    picture.arrow((end, 234), (end, 300))
    picture.text(end - 135, 268, "commit 2, state: done", style="small")
    picture.box(left, 304, 3 * step - 10, 60, "pages 1 to 3", "once each", style="green")
    picture.box(
        left + 3 * step,
        304,
        5 * step - 10,
        60,
        "pages 4 to 8",
        "once each: no commit names the files of the killed run",
        style="green",
    )
    return picture


PICTURES = {"data-flow": data_flow, "life-of-a-slice": life_of_a_slice, "crash-and-resume": crash_and_resume}


def main() -> None:
    """Draw all pictures."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(str(draw()))


if __name__ == "__main__":
    main()
