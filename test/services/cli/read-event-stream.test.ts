import { expect, test } from "vitest";
import { readEvents, type ServerEvent, type StreamState } from "../../../services/cli/read-event-stream.ts";

/** Reads a stream that arrives in pieces of this many bytes. */
async function read(text: string, size = 1): Promise<{ events: ServerEvent[]; state: StreamState }> {
  const state = { lastEventId: "", retryMs: 7 };
  const bytes = Buffer.from(text);
  async function* pieces() {
    for (let i = 0; i < bytes.length; i += size) yield bytes.subarray(i, i + size);
  }
  const events = [];
  for await (const event of readEvents(pieces(), state)) events.push(event);
  return { events, state };
}

test.each(["\n", "\r\n", "\r"])(
  "events are read with any line end (%j), and in pieces of any size",
  async (end) => {
    const text = [
      "retry: 50",
      "",
      ": a comment",
      "id: 1",
      "event: state",
      "data: ü",
      "",
      "data: a",
      "data:b",
      "",
      "data: cut",
    ];
    for (const size of [1, 2, 3, 7, 1000]) {
      const { events, state } = await read(text.join(end), size);
      expect(events).toEqual([
        { event: "state", data: "ü" },
        { event: "message", data: "a\nb" },
      ]);
      expect(state).toEqual({ lastEventId: "1", retryMs: 50 });
    }
  },
);

test("an id with a zero byte, an invalid time, an event without data and an unknown field are skipped", async () => {
  const { events, state } = await read(
    "id: a\0b\nretry: 1s\nevent: empty\nother: x\ndata\n\nevent: none\n\n",
  );
  expect(events).toEqual([{ event: "empty", data: "" }]);
  expect(state).toEqual({ lastEventId: "", retryMs: 7 });
});

test("the id of an event that is cut off is not stored, so that the event is sent again", async () => {
  const { events, state } = await read("id: 1\ndata: a\n\nid: 2\ndata: b\n");
  expect([events, state.lastEventId]).toEqual([[{ event: "message", data: "a" }], "1"]);
  expect((await read("id: 3\n\n")).state.lastEventId).toBe("3");
});

test("a line without an end causes an error before it fills the memory", async () => {
  await expect(read("x".repeat(400_000), 50_000)).rejects.toThrow("a line of the stream is too long");
});

test("complete events before a line without an end are returned", async () => {
  const events: ServerEvent[] = [];
  async function* body() {
    yield Buffer.from(`data: 1\n\n${"x".repeat(400_000)}`);
  }
  const reading = async () => {
    for await (const event of readEvents(body(), { lastEventId: "", retryMs: 7 })) events.push(event);
  };
  await expect(reading()).rejects.toThrow("a line of the stream is too long");
  expect(events).toEqual([{ event: "message", data: "1" }]);
});
