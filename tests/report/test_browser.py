"""The page in a real browser: Chromium without a window, if there is one."""

import html
import json
import shutil
import subprocess

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from legendretron import EvaluationReport
from tests.report.conftest import NAMES, Given, draw_labels, make_data

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium, as Debian's package of that name"),
]

#: Before the page: errors, and refused loads, are kept.
WATCH = """<script>
window.failures = [];
addEventListener("error", (event) => failures.push(String(event.message || event.target.src || event.target.href)), true);
addEventListener("securitypolicyviolation", (event) => failures.push(`${event.violatedDirective} ${event.blockedURI}`));
const complain = console.error;
console.error = (...words) => { failures.push(words.join(" ")); complain(...words); };
</script>"""

#: After the page: what is cut off, and what a click on each head of a table does.
LOOK = """<script>
addEventListener("load", () => {
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  const cut = [];
  for (const element of document.querySelectorAll("body *")) {
    const style = getComputedStyle(element);
    if (element.closest("svg") || style.display === "none" || style.display === "inline") continue;
    if (element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0)
      cut.push(`${element.tagName}.${element.className}: ${element.textContent.slice(0, 60)}`);
  }
  for (const text of document.querySelectorAll("figure > svg text")) {
    const inner = text.getBoundingClientRect(), outer = document.documentElement;
    if (inner.left < -1 || inner.right > outer.clientWidth + 1) cut.push(`svg text: ${text.textContent}`);
  }
  let sorted = 0, unsorted = [];
  for (const table of document.querySelectorAll("table.sortable")) {
    const count = table.tBodies[0].rows.length;
    [...table.tHead.rows[0].cells].forEach((head, place) => {
      const values = () => [...table.tBodies[0].rows].map((row) => row.cells[place]).map((cell) =>
        cell.dataset.v === undefined ? cell.textContent : cell.dataset.v === "" ? null : Number(cell.dataset.v));
      const words = new Intl.Collator(undefined, { numeric: true });
      const order = (a, b) => typeof a === "number" ? a - b : words.compare(a, b);
      for (const sign of [1, -1]) {
        const button = head.querySelector("[role=button]");
        if (sign > 0) button.click();
        else button.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
        const up = head.getAttribute("aria-sort") === "ascending" ? 1 : -1;
        const known = values().filter((value) => value !== null);
        const right = known.every((value, i) => i === 0 || up * order(known[i - 1], value) <= 0);
        if (right && table.tBodies[0].rows.length === count) sorted += 1; else unsorted.push(head.textContent);
      }
    });
  }
  const mark = document.querySelector("[data-tip]");
  const at = mark.getBoundingClientRect();
  mark.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: at.x, clientY: at.y }));
  const tip = document.getElementById("tip");
  const dark = getComputedStyle(document.body).backgroundColor;
  const found = { width: innerWidth, wide, cut, sorted, unsorted, failures, dark, hovered: tip.style.display === "block" &&
                  tip.textContent === mark.dataset.tip };
  parent.postMessage(JSON.stringify(found), "*");
});
</script>"""


def dumped(frame, *flags):
    """Open a page, and return what it has written into its element ``pre``, as JSON."""
    command = [
        CHROMIUM,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={frame.parent / 'profile'}",
    ]
    command += [*flags, "--window-size=1500,1000", "--virtual-time-budget=20000", "--dump-dom", f"file://{frame}"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return json.loads(html.unescape(run.stdout.split("<pre>")[1].split("</pre>")[0]))


def opened(report, folder, width, *flags):
    """Open a page in a frame of a width, since windows of a browser cannot be as narrow as a phone."""
    text = report.to_html()
    watched = text.replace("<head>", f"<head>{WATCH}", 1).replace("</body>", f"{LOOK}</body>", 1)
    assert watched.count("window.failures") == 1
    (folder / "report.html").write_text(watched)
    (folder / "frame.html").write_text(
        f"""<!DOCTYPE html><body><pre></pre><iframe src="report.html" style="width:{width}px;height:900px;border:0"></iframe>
        <script>
        addEventListener("message", (event) => {{ document.querySelector("pre").textContent = event.data; }});
        </script>"""
    )
    return dumped(folder / "frame.html", *flags)


@pytest.fixture(scope="module")
def reports(fitted, quick):
    model, X, y = fitted
    weight = np.arange(len(y)) % 3
    long = {name: f"{name} {'very' * 12} long" for name in NAMES}
    data, labels = make_data(200)
    labels = np.array([long[label] for label in labels])
    log_p, many = draw_labels(900, 26, spread=3.0)
    letters = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    return {
        "two models": EvaluationReport(model, X, y, weight, model, against_name="another model of the same kind"),
        "long names": EvaluationReport(
            RandomForestClassifier(5, random_state=0).fit(data[:120], labels[:120]), data[120:], labels[120:],
            name="a_name_without_a_single_space_that_is_as_long_as_names_of_files_can_be.safetensors",
        ),
        "letters": EvaluationReport(Given(tuple(letters)), log_p, letters[many], data="letters.csv"),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["two models", "long names", "letters"])
@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_is_cut_and_tables_sort(reports, tmp_path, name, width):
    found = opened(reports[name], tmp_path, width)
    assert found["width"] == width
    assert found["failures"] == []
    assert found["wide"] <= 0
    assert found["cut"] == []
    assert found["unsorted"] == []
    assert found["sorted"] > 20
    assert found["hovered"]


def test_links_to_sections_stay_in_the_frame_of_a_notebook(reports, tmp_path):
    """In a frame with its content in an attribute, addresses are relative to the page around it."""
    shown = reports["letters"]._repr_html_().replace(' sandbox="allow-scripts"', "")  # so that the page may look inside
    (tmp_path / "notebook.html").write_text(
        f"""<!DOCTYPE html><body><pre></pre>{shown}<script>
        const frame = document.querySelector("iframe");
        frame.addEventListener("load", () => {{
          frame.contentDocument.querySelector('nav a[href="#card"]').click();
          setTimeout(() => {{
            const found = {{ address: frame.contentWindow.location.href, scrolled: frame.contentWindow.scrollY }};
            document.querySelector("pre").textContent = JSON.stringify(found);
          }}, 500);
        }}, {{ once: true }});
        </script>"""
    )
    found = dumped(tmp_path / "notebook.html", "--allow-file-access-from-files")
    assert found["address"] == "about:srcdoc"
    assert found["scrolled"] > 1000
