// The session of this page: a secret of its origin, which scripts send in a header. No cookie: a
// browser sends those to the servers of all ports of a host, also to other users'.

const KEY = "session";
const ANSWER_MS = 300;
const RETRY_MS = 1000;

// Tabs of one origin pass the secret on: a link serves once.
const tabs = new BroadcastChannel("innet session");
tabs.addEventListener("message", ({data}) => {
  const session = sessionStorage.getItem(KEY);
  if (data === "ask" && session !== null) tabs.postMessage({session});
});

export function request(path, options = {}) {
  const headers = {...options.headers, Authorization: `Bearer ${sessionStorage.getItem(KEY) ?? ""}`};
  return fetch(path, {...options, headers, credentials: "omit"});
}

// Opens the session that a token is for, or finds one that is open; the reason where there is none.
export async function enter(token) {
  if (token !== null) {
    const answer = await request("/session", {method: "POST", body: JSON.stringify({token})});
    const body = await answer.json();
    if (answer.ok) sessionStorage.setItem(KEY, body.session);
    else if (sessionStorage.getItem(KEY) === null && !(await askTabs())) return body.error;
  } else if (sessionStorage.getItem(KEY) === null) {
    await askTabs();
  }
  return null;
}

function askTabs() {
  return new Promise((resolve) => {
    const end = (session) => {
      tabs.removeEventListener("message", hear);
      if (session !== null) sessionStorage.setItem(KEY, session);
      resolve(session !== null);
    };
    const hear = ({data}) => { if (typeof data?.session === "string") end(data.session); };
    tabs.addEventListener("message", hear);
    tabs.postMessage("ask");
    setTimeout(() => end(sessionStorage.getItem(KEY)), ANSWER_MS);
  });
}

// The server's lines, from the oldest that it keeps on. After a lost connection they go on where
// they ended.
export class LineStream {
  constructor(onLines, onLost, onRefused) {
    this.onLines = onLines;
    this.onLost = onLost;
    this.onRefused = onRefused;
    this.ending = new AbortController();
    this.last = "";
    this.run();
  }

  close() { this.ending.abort(); }

  async run() {
    while (!this.ending.signal.aborted) {
      try {
        const headers = this.last ? {"Last-Event-ID": this.last} : {};
        const answer = await request("/lines", {headers, signal: this.ending.signal});
        if (!answer.ok) return this.onRefused((await answer.json()).error);
        await this.read(answer.body.pipeThrough(new TextDecoderStream()).getReader());
      } catch {
        // The connection broke, or was closed here.
      }
      if (this.ending.signal.aborted) return;
      this.onLost();
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }

  async read(reader) {
    let text = "";
    for (;;) {
      const {value, done} = await reader.read();
      if (done) return;
      const events = (text + value).split("\n\n");
      text = events.pop();
      for (const event of events) this.take(event.split("\n"));
    }
  }

  // Fields of server-sent events.
  take(fields) {
    const values = (name) => fields.filter((field) => field.startsWith(name)).map((field) => field.slice(name.length));
    this.last = values("id: ")[0] ?? this.last;
    const lines = values("data: ");
    if (lines.length > 0) this.onLines(lines);
  }
}
