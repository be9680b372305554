"""The page in a browser, fed by hand."""

from __future__ import annotations

import asyncio
import itertools
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from innet.cluster.run_state import NodeState
from innet.observe.web.document import (
    EventLine,
    FindingLine,
    Frame,
    GroupLine,
    JobLine,
    Line,
    LinkFigures,
    LinkPicture,
    NodePicture,
    Picture,
    Recording,
    Wait,
    picture_of,
)
from innet.observe.web.live import History, View, recorded_view
from innet.telemetry.messages import CommandReply
from innet.topology import load_topology
from tests.observe.web.browser import browsing, changes, wait_for
from tests.observe.web.pages import Site, served

_HOSTILE = "<img src=x onerror=alert(1)>\"'`</script>"


def _view(picture: Picture | None = None) -> View:
    picture = picture or picture_of(load_topology("star4"), "lab", "local")
    view = View(picture.model_copy(update={"live": True}), History())
    view.append(Line(frame=Frame(time_s=1)))
    return view


class _Feeder:
    """Adds frames a second apart, to a view that a server on another thread shows."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._time_s = 1.0

    def __call__(self, **fields: Any) -> None:
        self._time_s += 1
        self._site.append(Line(frame=Frame(time_s=self._time_s, **fields)))


@pytest.fixture
def view() -> View:
    return _view()


@pytest.fixture
def site(view):
    with served(view) as site:
        yield site


@pytest.fixture
def feed(site) -> _Feeder:
    return _Feeder(site)


@pytest.fixture
def page(site):
    # Without motion, two pictures of one frame are the same.
    with browsing(reduced_motion=True) as page:
        page.goto(site.link)
        wait_for(page, "innet.frame && innet.network.drawn > 0")
        yield page


def test_the_picture_follows_the_network(page, feed):
    late = {"late": ("h2",), "waits": (Wait(node="h0", number=7, missing="rank 2 (h2)"),)}
    job = JobLine(
        name="j1",
        hosts=("h0", "h2"),
        groups=(GroupLine(name="g0", algorithm="inc", ranks=("h0", "h2"), joined=2),),
    )
    for what, condition in (
        ({"cut": (1,)}, "innet.frame.cut.has(1)"),
        ({"jobs": (job,), **late}, "innet.frame.late.has('h2')"),
        ({"states": {"s0": "lost"}}, "innet.frame.states.s0 === 'lost'"),
        ({"states": {"h1": "stopped"}}, "innet.frame.states.h1 === 'stopped'"),
        ({"links": {"bps": [9e8] * 8}}, "innet.frame.links.bps?.length === 8"),
    ):
        assert changes(page, partial(feed, **what), condition), what
        if "late" in what:
            assert "1 rank waits for h2." in page.inner_text("#jobs")


def test_a_page_without_any_state_yet_says_that_it_waits():
    picture = picture_of(load_topology("star4"), "lab", "local").model_copy(update={"live": True})
    with served(View(picture, History())) as site, browsing() as page:
        page.goto(site.link)
        wait_for(page, "innet.history !== null")
        assert "Waiting for the state of the network" in page.inner_text("#findings")
        _Feeder(site)()
        wait_for(page, "!document.querySelector('#findings').textContent.includes('Waiting')")


def test_a_finding_is_shown_with_its_next_step(page, feed):
    finding = FindingLine(check="dead_node", subject="s0", problem="s0 is dead.", remedy="Restart.")
    feed(findings=(finding,))
    page.get_by_text("s0 is dead.").first.wait_for()
    assert "Restart." in page.inner_text("#findings")
    assert page.inner_text("#status") == "s0 is dead."


def test_findings_that_do_not_fit_are_counted_and_a_click_shows_them(page, feed):
    one = FindingLine(check="dead_node", subject="h0", problem="one is wrong", remedy="Mend it.")
    feed(findings=(one,))
    page.get_by_text("one is wrong").first.wait_for()
    assert page.is_hidden("#more-findings")
    feed(findings=[one.model_copy(update={"problem": f"{n} is wrong"}) for n in range(20)])
    page.get_by_text("19 is wrong").first.wait_for()
    before = int(page.inner_text("#more-findings").split()[1])
    assert 10 < before < 20
    page.click("#more-findings")
    wait_for(
        page, f"parseInt(document.querySelector('#more-findings').innerText.slice(2)) < {before}"
    )
    page.evaluate("document.querySelector('#findings').lastElementChild.scrollIntoView()")
    page.locator("#more-findings").wait_for(state="hidden")


def test_a_picture_without_motion_is_drawn_once(page, feed):
    feed(links={"bps": [9e8] * 8})
    wait_for(page, "innet.frame.links.bps?.length === 8 && innet.network.dots.length === 8")
    drawn = page.evaluate(
        "(async () => { const pause = () => new Promise((done) => requestAnimationFrame(done));"
        "for (let i = 0; i < 3; i += 1) await pause(); const before = innet.network.drawn;"
        "for (let i = 0; i < 30; i += 1) await pause(); return innet.network.drawn - before; })()"
    )
    assert drawn == 0


@pytest.mark.parametrize(
    ("examined", "says"), [(True, "Nothing is wrong."), (False, "does not look at this network")]
)
def test_a_page_without_findings_shows_whether_the_doctor_runs(examined, says):
    picture = picture_of(load_topology("star4"), "lab", "local")
    view = _view(picture.model_copy(update={"examined": examined}))
    with served(view) as site, browsing() as page:
        page.goto(site.link)
        page.get_by_text(says).wait_for()
        assert ("No job runs." in page.inner_text("#jobs")) == examined


def test_paused_pages_freeze_and_can_be_scrubbed(page, feed):
    for number in range(5):
        feed(states={"h0": "lost"} if number == 1 else {})
    wait_for(page, "innet.history.frames.length === 6")
    page.keyboard.press("Space")
    feed(states={"h3": "lost"})
    wait_for(page, "innet.history.frames.length === 7")
    assert page.evaluate("[innet.mode, innet.frame.time]") == ["paused", 6]
    for _ in range(3):
        page.keyboard.press(",")
    assert page.evaluate("innet.frame.states.h0") == "lost"
    page.click("#pause")
    wait_for(page, "innet.mode === 'live' && innet.frame.states.h3 === 'lost'")


def test_an_exported_file_opens_again(page, feed, site, tmp_path):
    feed(states={"h0": "lost"})
    event = EventLine(time_s=2, source="h0", kind="peer_lost", message="gone")
    site.append(Line(event=event))
    wait_for(page, "innet.history.events.length === 1")
    with page.expect_download() as download:
        page.click("#export")
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    assert path.name == "lab.innetrec"
    page.set_input_files("#file", path)
    wait_for(page, "innet.mode === 'recording' && innet.history.frames.length === 2")
    assert "peer lost" in page.text_content("#events") or page.evaluate("innet.frame.time") == 1
    path.write_text("{}")
    page.set_input_files("#file", path)
    page.get_by_text("This is no recording of innet.").wait_for()


def test_a_recording_plays_to_its_end_and_stops_where_it_is_paused():
    picture = picture_of(load_topology("star4"), "lab", "sim", virtual_time=True)
    frames = tuple(Line(frame=Frame(time_s=number / 1e4)) for number in range(400))
    with served(recorded_view(Recording(picture, frames))) as site, browsing() as page:
        page.goto(site.link)
        wait_for(page, "innet.history?.frames.length === 400 && innet.frame.time === 0")
        assert page.inner_text("#pause") == "Play"
        page.click("#pause")
        wait_for(page, "innet.frame.time > 0.001")
        page.click("#pause")
        assert page.inner_text("#pause") == "Play"
        stopped = page.evaluate("innet.frame.time")
        assert 0.001 < stopped < 0.0399
        page.keyboard.press(",")
        assert page.evaluate("innet.frame.time") < stopped
        page.fill("#scrub", "950")
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("Space")
        wait_for(
            page,
            "innet.frame.time === 0.0399 && document.querySelector('#pause').innerText === 'Play'",
        )


def test_keys_select_nodes_and_show_their_details(page):
    page.focus("#canvas")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    wait_for(page, "document.querySelector('#details').textContent.includes('Switch s0')")
    page.keyboard.press("f")
    page.keyboard.type("h3")
    page.keyboard.press("Enter")
    wait_for(page, "document.querySelector('#details').textContent.includes('Host h3')")
    assert page.evaluate("document.querySelectorAll('.chart').length") == 3


def test_commands_wait_for_a_confirmation(view):
    told = []

    async def tell(node, command) -> CommandReply:
        await asyncio.sleep(0)
        told.append((node, command.kind))
        return CommandReply(run="lab", node=node, number=1, accepted=True, message=_HOSTILE)

    view.give_command = tell
    view.picture = view.picture.model_copy(update={"commands": True})
    with served(view) as site, browsing() as page:
        page.goto(site.link)
        wait_for(page, "innet.frame")
        page.fill("#find", "s0")
        page.keyboard.press("Enter")
        page.click("text=Drop cache…")
        page.click("#dialog-cancel")
        page.click("text=Drop cache…")
        assert told == []
        page.click("#dialog-confirm")
        page.get_by_text("s0 answered").wait_for()
        assert told == [("s0", "drop_cache")]
        assert _HOSTILE in page.inner_text("#dialog-body")


@pytest.mark.parametrize(
    ("kind", "word", "alarming"),
    [("run_ended", "ended", False), ("view_failed", "not followed", True)],
)
def test_the_page_states_why_updates_ended(page, site, feed, kind, word, alarming):
    feed(states={"h0": "lost"})
    site.loop.call_soon_threadsafe(
        lambda: site.view.close(kind, f"because of {_HOSTILE}", alarming=alarming)
    )
    page.get_by_text("because of").first.wait_for()
    assert page.inner_text("#message") == f"because of {_HOSTILE}"
    assert page.inner_text("#mode") == word
    page.keyboard.press(",")
    wait_for(page, "innet.mode === 'paused' && !innet.frame.states.h0")


def test_labels_of_nodes_that_need_attention_hide_neither_each_other_nor_a_node():
    topology = load_topology("leaf-spine:12x8x15")
    view = _view(picture_of(topology, "lab", "local"))
    states: dict[str, NodeState] = {"h3": "stopped", "h7": "lost", "h8": "silent", "spine0": "lost"}
    view.append(Line(frame=Frame(time_s=2, states=states, late=("h4", "h5"))))
    with served(view) as site, browsing(reduced_motion=True) as page:
        page.goto(site.link)
        wait_for(page, "innet.frame?.time === 2 && innet.network.labels.placed.length > 5")
        labels = page.evaluate("innet.network.labels.placed")
    odd = {"h3 stopped", "h7 lost", "h8 silent", "h4 late", "h5 late", "spine0 lost"}
    assert odd <= {label["label"] for label in labels}
    boxes = [label["box"] for label in labels]
    for one, other in itertools.combinations(boxes, 2):
        beside = one["right"] <= other["left"] or other["right"] <= one["left"]
        assert beside or one["bottom"] <= other["top"] or other["bottom"] <= one["top"]


def test_labels_in_dense_networks_hide_few_nodes_and_tell_long_names_apart():
    picture = picture_of(load_topology("leaf-spine:32x8x30"), "lab", "local")
    spines = [n for n, node in enumerate(picture.nodes) if node.name in ("spine0", "spine7")]
    nodes = [
        node.model_copy(update={"name": f"top-of-the-network-{n}"}) if n in spines else node
        for n, node in enumerate(picture.nodes)
    ]
    view = _view(picture.model_copy(update={"nodes": tuple(nodes)}))
    view.append(Line(frame=Frame(time_s=2, late=("h0",))))
    with served(view) as site, browsing(reduced_motion=True) as page:
        page.goto(site.link)
        wait_for(page, "innet.frame?.time === 2 && innet.network.labels.placed.length > 5")
        placed = {one["label"]: one["box"] for one in page.evaluate("innet.network.labels.placed")}
        places = page.evaluate("innet.network.places")
    assert {f"top-of-t…twork-{n}" for n in spines} <= set(placed)
    box = placed["h0 late"]
    inside = [
        (x, y)
        for x, y in places
        if box["left"] < x < box["right"] and box["top"] < y < box["bottom"]
    ]
    assert inside == []


def test_charts_show_the_values_of_the_moment(page, feed):
    feed(links={"bps": [1e6] * 8})
    wait_for(page, "document.querySelector('#charts').innerText.includes('8 Mbit/s')")
    page.keyboard.press("Space")
    page.keyboard.press(",")
    wait_for(page, "!document.querySelector('#charts').innerText.includes('8 Mbit/s')")


def test_charts_keep_their_curves_when_nothing_is_selected_again():
    picture = picture_of(load_topology("star4"), "lab", "local")
    frames = tuple(
        Line(frame=Frame(time_s=number, links=LinkFigures(bps=(1e6 * number,) * 8)))
        for number in range(1, 9)
    )
    with served(recorded_view(Recording(picture, frames))) as site, browsing() as page:
        page.goto(site.link)
        wait_for(page, "innet.history?.frames.length === 8")
        charts = page.locator("#charts")
        wait_for(page, "document.querySelector('#charts').innerText.includes('8 Mbit/s')")
        curves = charts.screenshot()
        for nothing in (
            lambda: page.keyboard.press("Escape"),
            lambda: page.click("#canvas", position={"x": 3, "y": 3}),
        ):
            nothing()
            page.evaluate("new Promise((done) => requestAnimationFrame(done))")
            assert charts.screenshot() == curves
        page.fill("#find", "h0")
        page.keyboard.press("Enter")
        wait_for(page, "document.querySelector('#charts').innerText.includes('Memory')")
        page.focus("#canvas")
        page.keyboard.press("Escape")
        wait_for(page, "document.querySelector('#charts').innerText.includes('8 Mbit/s')")


def test_charts_of_short_simulations_have_times_with_units_and_say_what_was_not_recorded():
    picture = picture_of(load_topology("star4"), "lab", "sim", virtual_time=True)
    frames = tuple(
        Line(frame=Frame(time_s=number / 1e5, links=LinkFigures(bps=(1e6 * number,) * 8)))
        for number in range(1, 9)
    )
    with served(recorded_view(Recording(picture, frames))) as site, browsing() as page:
        page.add_init_script(
            "const fill = CanvasRenderingContext2D.prototype.fillText; window.written = new Set();"
            "CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {"
            "window.written.add(text); return fill.call(this, text, ...rest); };"
        )
        page.goto(site.link)
        wait_for(page, "document.querySelector('#charts').innerText.includes('8 Mbit/s')")
        assert page.inner_text("#clock") == "10 µs"
        wait_for(page, "[...written].some((text) => /^[1-9][0-9]* µs$/.test(text))")
        assert not page.evaluate("[...written].some((text) => /^0[.0]* ?s$/.test(text))")
        unknown = page.locator(".chart.unknown .u-title").all_inner_texts()
        assert unknown == ["Queues of all links", "Dropped packets/s", "Sums of switches/s"]


@pytest.mark.parametrize("size", [(1280, 800), (2560, 1440)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_selected_node_with_much_to_tell_leaves_the_jobs_in_view(view, size, scheme):
    width, height = size
    waits = tuple(
        Wait(node="h0", number=number, missing="rank 3 (h3), segments 1 to 512 of 2048")
        for number in range(40)
    )
    job = JobLine(
        name="j1",
        hosts=("h0", "h3"),
        groups=(GroupLine(name="g0", algorithm="inc", ranks=("h0", "h3"), joined=2),),
    )
    options = {"viewport": {"width": width, "height": height}, "color_scheme": scheme}
    with served(view) as site, browsing(**options) as page:
        page.goto(site.link)
        wait_for(page, "innet.frame && innet.network.drawn > 0")
        _Feeder(site)(jobs=(job,), waits=waits)
        wait_for(page, "innet.frame.waits.length === 40")
        page.fill("#find", "h0")
        page.keyboard.press("Enter")
        wait_for(page, "document.querySelector('#details').textContent.includes('operation 39')")
        box = page.locator("#jobs").bounding_box()
        assert box["y"] + 60 < page.locator("footer").bounding_box()["y"]


def test_the_time_line_of_a_page_that_is_paused_for_long_moves_on(page, site):
    site.append(Line(frame=Frame(time_s=301)))
    wait_for(page, "innet.frame.time === 301")
    page.click("#pause")
    assert page.input_value("#scrub") == "1000"
    site.append(Line(frame=Frame(time_s=602)))
    wait_for(page, "innet.history.first === 301")
    assert page.evaluate("innet.history.frames.length") == 2
    wait_for(page, "document.querySelector('#scrub').value === '0'")
    assert page.evaluate("[innet.mode, innet.frame.time]") == ["paused", 301]


def test_hostile_names_inject_nothing():
    picture = Picture(
        run=_HOSTILE,
        topology=_HOSTILE,
        mode=_HOSTILE,
        nodes=(
            NodePicture(name=_HOSTILE, kind="host", x=0, y=0),
            NodePicture(name="__proto__", kind="switch", x=0, y=-1),
        ),
        links=(LinkPicture(a=0, b=1),),
    )
    view = _view(picture)
    group = GroupLine(name=_HOSTILE, algorithm=_HOSTILE, ranks=(_HOSTILE, "constructor"), joined=1)
    frame = Frame(
        time_s=2,
        late=(_HOSTILE,),
        states={"__proto__": "lost"},
        waits=(Wait(node=_HOSTILE, number=1, missing=_HOSTILE),),
        jobs=(JobLine(name=_HOSTILE, hosts=(_HOSTILE,), groups=(group,)),),
        findings=(
            FindingLine(
                check="x", subject=_HOSTILE, problem=_HOSTILE, remedy=_HOSTILE, more=_HOSTILE
            ),
        ),
    )
    event = EventLine(time_s=2, source=_HOSTILE, kind=_HOSTILE, message=_HOSTILE, alarming=True)
    view.append(Line(event=event))
    view.append(Line(frame=frame))
    with served(view) as site, browsing() as page:
        page.goto(site.link)
        wait_for(page, "innet.frame?.time === 2")
        page.focus("#canvas")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("ArrowUp")
        wait_for(page, "document.querySelector('#events').textContent.includes('onerror')")
        assert page.evaluate("innet.frame.states.constructor === undefined")
        assert page.evaluate("document.querySelectorAll('img, script:not([src])').length") == 0
        assert page.inner_text("#findings").count(_HOSTILE.replace("`", "")) == 3
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_session_survives_a_reload_and_the_link_does_not(view):
    with served(view) as site:
        with browsing(base_url=site.link) as page:
            page.goto(site.link)
            wait_for(page, "innet.frame")
            assert "token" not in page.url
            page.reload()
            wait_for(page, "innet.frame")
            other = page.context.new_page()  # a second tab, without a link
            other.goto(page.url)
            wait_for(other, "innet.frame")
            page.close()
            other.reload()
            wait_for(other, "innet.frame")
            other.goto(site.link)
            wait_for(other, "innet.frame")
        with browsing(allows_errors=True, base_url=site.link) as page:
            page.goto(site.link)
            page.get_by_text("serves once").wait_for()
            page.goto(site.link.partition("#")[0])
            page.get_by_text("this tab has no session").wait_for()


class _Neighbour(BaseHTTPRequestHandler):
    """Another user's web server at another port of the host: it collects what browsers send."""

    received: ClassVar[list[str]] = []
    page = b""

    def do_GET(self) -> None:
        self.received.append(f"{self.path}\n{self.headers}")
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.page)

    def log_message(self, *_: object) -> None:
        pass


_ATTACK = """<script>
async function attack(victim) {
  const gained = [];
  const attempt = async (what, run) => {
    try { const got = await run(); if (got) gained.push(`${what}: ${got}`); } catch {}
  };
  const body = JSON.stringify({node: "s0", command: {kind: "drop_cache"}});
  for (const mode of ["cors", "no-cors"]) {
    for (const credentials of ["include", "same-origin"]) {
      const how = {mode, credentials};
      await attempt("picture", async () => (await fetch(victim + "/picture", how)).text());
      const order = {...how, method: "POST", body};
      await attempt("tell", async () => (await fetch(victim + "/tell", order)).text());
    }
  }
  await attempt("storage", () => [sessionStorage, localStorage].flatMap(Object.values).join());
  await attempt("cookie", () => document.cookie);
  await attempt("window", async () => {
    const opened = window.open(victim);
    await new Promise((resolve) => setTimeout(resolve, 500));
    return opened?.sessionStorage.getItem("session");
  });
  await attempt("channel", () => new Promise((resolve) => {
    const channel = new BroadcastChannel("innet session");
    channel.addEventListener("message", ({data}) => resolve(JSON.stringify(data)));
    channel.postMessage("ask");
    setTimeout(() => resolve(""), 500);
  }));
  return gained;
}
</script>"""


def test_a_server_at_another_port_of_the_host_gains_nothing(view):
    orders = []

    async def give_command(node: str, command: Any) -> CommandReply:
        orders.append(node)
        return CommandReply(run="lab", node=node, number=1, accepted=True, message="done")

    view.give_command = give_command
    _Neighbour.page = _ATTACK.encode()
    _Neighbour.received.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Neighbour) as neighbour, served(view) as site:
        threading.Thread(target=neighbour.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{neighbour.server_address[1]}/"
        victim = site.link.partition("/#")[0]
        with browsing(allows_errors=True, base_url=site.link) as page:
            page.goto(site.link)
            wait_for(page, "innet.frame")
            session = page.evaluate("sessionStorage.getItem('session')")
            assert page.context.cookies() == []
            other = page.context.new_page()
            other.goto(address)
            assert other.evaluate("(victim) => attack(victim)", victim) == []
            page.goto(address)  # the page's own tab, with its referrer and its history
            assert page.evaluate("(victim) => attack(victim)", victim) == []
            page.go_back()
            wait_for(page, "innet.frame")
        neighbour.shutdown()
    sent = "".join(_Neighbour.received)
    assert sent
    assert session not in sent
    assert victim not in sent  # nor a referrer
    assert "Cookie" not in sent
    assert orders == []
