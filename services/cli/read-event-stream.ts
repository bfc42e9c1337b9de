/** One event of a stream. The data is text. Gateways and the console send JSON. */
export type ServerEvent = { event: string; data: string };

/**
 * State that a reader of a stream keeps when it reconnects (WHATWG HTML, section 9.2). It has the id of the last event,
 * and the pause before a reconnect.
 */
export type StreamState = { lastEventId: string; retryMs: number };

/** Limit on the length of a line, so that a stream cannot fill the memory. Lines of Postern's own streams are shorter. */
const LINE_CHARS_MAX = 256 * 1024;

/**
 * Reads server-sent events until the stream ends. Writes the id of the last event and the retry time into `state`.
 * Node's own EventSource is not used, because it accepts no headers and is experimental.
 */
export async function* readEvents(
  body: AsyncIterable<Uint8Array>,
  state: StreamState,
): AsyncGenerator<ServerEvent> {
  let [event, data] = ["message", [] as string[]];
  const read = { ...state };
  for await (const line of linesOf(body)) {
    const [, name, value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (line === "") {
      // The state changes only at the end of an event. If the connection breaks within an event, the state still has
      // the id before it. So the server sends the event again after the reconnect.
      Object.assign(state, read);
      if (data.length > 0) yield { event, data: data.join("\n") };
      [event, data] = ["message", []];
    } else if (name === "event") event = value;
    else if (name === "data") data.push(value);
    else note(read, name, value);
  }
}

/** Stores the value of a field `id` or `retry`. Ignores all other fields, and comments. */
function note(state: StreamState, name: string | undefined, value: string): void {
  if (name === "id" && !value.includes("\0")) state.lastEventId = value;
  if (name === "retry" && /^\d{1,9}$/.test(value)) state.retryMs = Number(value);
}

/** Splits a stream into lines, which end with CR, LF or both. Text after the last line end is dropped. */
async function* linesOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of body) {
    rest += decoder.decode(chunk, { stream: true });
    // A CR at the end of a chunk does not end the line yet, because its LF may follow in the next chunk.
    const lines = rest.split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? "";
    yield* lines;
    if (rest.length > LINE_CHARS_MAX) throw new Error("a line of the stream is too long");
  }
}
