import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { type EventStream, openEventStream } from "../../../shared/http/event-stream.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { readStream } from "../../support/event-source.ts";

const ends = useEnds();
const PADDING = "p".repeat(4000);

/** Starts a host's server with this high-water mark. */
async function serve(highWaterMark: number, stalledMs: number) {
  const opened: { res: ServerResponse; stream: EventStream }[] = [];
  let ready = 0;
  const server = createServer({ highWaterMark }, (_req, res) => {
    const stream = openEventStream(res, { stalledMs, onReady: () => ready++, onClose: () => stream.end() });
    opened.push({ res, stream });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  ends.defer(() => {
    server.closeAllConnections();
    server.close();
  });
  const reader = await readStream(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  ends.defer(reader.close);
  const [{ res, stream } = expect.fail("no stream")] = opened;
  return { res, stream, reader, ready: () => ready };
}

/**
 * Sends one event in each turn of the event loop until the reader lags. Resolves with the number of events, and the
 * most bytes that waited.
 */
async function sendUntilFull({ res, stream }: { res: ServerResponse; stream: EventStream }) {
  let [sent, held] = [0, 0];
  while (stream.isReady()) {
    stream.send([{ event: "e", id: String(sent), data: { PADDING } }]);
    sent += 1;
    held = Math.max(held, res.writableLength);
    await new Promise(setImmediate);
  }
  return { sent, held };
}

test.each([4 * 1024, 1024 * 1024])(
  "at most 16 KiB and one event wait for a slow reader, independent of its server's high-water mark (%i), and onReady is called once it has caught up",
  async (highWaterMark) => {
    const opened = await serve(highWaterMark, 60_000);
    const { stream, reader } = opened;
    reader.pause();
    const { sent, held } = await sendUntilFull(opened);
    expect(held).toBeGreaterThanOrEqual(16 * 1024);
    expect(held).toBeLessThan(16 * 1024 + PADDING.length + 200);
    const before = opened.ready();
    reader.resume();
    await eventually("it may go on", () => stream.isReady());
    expect(opened.ready()).toBe(before + 1);
    await eventually(
      "all has come",
      () => reader.events.filter(({ id }) => id !== undefined).length === sent,
    );
  },
);

test("a reader that reads nothing for a long time is disconnected", async () => {
  const opened = await serve(1024 * 1024, 20);
  opened.reader.pause();
  await sendUntilFull(opened);
  await eventually("it is gone", () => opened.res.destroyed);
});
