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

/** A server of a host's own, with Node's high-water mark at this many bytes. */
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

/** Sends events, one in each turn of the event loop, until the reader lags. Resolves with how many, and with the most bytes that waited. */
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
  "a reader that lags is held 16 KiB at most beside one event, whatever its server's high-water mark (%i), and is told when it may go on",
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

test("a reader that takes nothing for long is cut off", async () => {
  const opened = await serve(1024 * 1024, 20);
  opened.reader.pause();
  await sendUntilFull(opened);
  await eventually("it is gone", () => opened.res.destroyed);
});
