/** One event of a stream. Its data is text: JSON, if it comes from a gateway. */
export type ServerEvent = { event: string; data: string };

/** What a reader of streams knows from one connection to the next (WHATWG HTML, section 9.2). */
export type StreamState = { lastEventId: string; retryMs: number };

/** A longer line is in no stream of ours. */
const LINE_CHARS_MAX = 256 * 1024;

/**
 * Reads server-sent events until the stream ends. Ids and the time to come again are written into `state`. Node's own EventSource takes no
 * header, and is experimental.
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
      // Only a whole event counts: one that is cut off before this line has to be sent again.
      Object.assign(state, read);
      if (data.length > 0) yield { event, data: data.join("\n") };
      [event, data] = ["message", []];
    } else if (name === "event") event = value;
    else if (name === "data") data.push(value);
    else note(read, name, value);
  }
}

/** A comment has no name. */
function note(state: StreamState, name: string | undefined, value: string): void {
  if (name === "id" && !value.includes("\0")) state.lastEventId = value;
  if (name === "retry" && /^\d{1,9}$/.test(value)) state.retryMs = Number(value);
}

/** A line ends with CR, LF or both. What follows the last end is no line. */
async function* linesOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of body) {
    rest += decoder.decode(chunk, { stream: true });
    // A CR at the end may be followed by its LF.
    const lines = rest.split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? "";
    yield* lines;
    if (rest.length > LINE_CHARS_MAX) throw new Error("a line of the stream is too long");
  }
}
