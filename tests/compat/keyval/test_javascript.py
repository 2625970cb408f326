"""The consumer of the document, letter by letter, in Node: what a page has and Node has not is put in front of it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from tests.compat.keyval.client import Client
from tests.support.patience import eventually
from tests.support.servers.server import program

PAGE = """
const base = process.argv[1];
const fetchAnywhere = globalThis.fetch;
globalThis.fetch = (path, options) => fetchAnywhere(new URL(path, base), options);
globalThis.EventSource = class extends EventTarget {
  constructor(path) {
    super();
    this.read(path);
  }
  async read(path) {
    const answer = await fetch(path);
    let text = "";
    for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
      text += piece;
      for (let end; (end = text.indexOf("\\n\\n")) >= 0; text = text.slice(end + 2)) {
        const lines = text.slice(0, end).split("\\n").map((line) => line.match(/^(\\w+): ?(.*)$/));
        const fields = Object.fromEntries(lines.map(([, name, value]) => [name, value]));
        this.dispatchEvent(new MessageEvent(fields.event, { data: fields.data, lastEventId: fields.id }));
      }
    }
  }
};
async function processMessage(value) {
  if (value.fails) throw new Error("as it was told to");
}
"""
EXAMPLE = """
const eventSource = new EventSource("/keyval/api/queue/listen");

eventSource.addEventListener("message", async (event) => {
  const msg = JSON.parse(event.data);
  console.log(`Processing: ${msg.id}, attempt: ${msg.attempts}`);

  try {
    await processMessage(msg.value);

    // Acknowledge success
    await fetch("/keyval/api/queue/ack", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ id: msg.id }),
    });
  } catch (error) {
    // Reject for retry
    await fetch("/keyval/api/queue/nack", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ id: msg.id }),
    });
  }
});
"""


@contextmanager
def consumer(client: Client) -> Iterator[IO[str]]:
    command = [program("node", "nodejs"), "--eval", PAGE + EXAMPLE, client.server.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.kill()


def test_the_consumer_acks_what_succeeds_and_nacks_what_fails(served: Client) -> None:
    with consumer(served) as printed:
        good = served.enqueue({"task": "send-email"})
        assert printed.readline() == f"Processing: {good}, attempt: 1\n"
        eventually(lambda: served.stats() == (0, 0, 0))
        bad = served.enqueue({"fails": True}, backoffSchedule=[10])
        assert [printed.readline() for _ in range(2)] == [f"Processing: {bad}, attempt: {attempt}\n" for attempt in (1, 2)]
        eventually(lambda: served.stats() == (0, 0, 1))


def test_the_consumer_goes_on_for_more_than_may_be_unsettled(served: Client) -> None:
    ids = [served.enqueue({"n": n}) for n in range(50)]
    with consumer(served) as printed:
        assert {printed.readline() for _ in ids} == {f"Processing: {id}, attempt: 1\n" for id in ids}
        eventually(lambda: served.stats() == (0, 0, 0))
