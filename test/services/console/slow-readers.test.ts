import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { refusalOf, type TestOperator, TOKENS, useOperator } from "../../fixtures/console.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { tempDir } from "../../support/temp-dir.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });
const ends = useEnds();

/** More bytes than the system buffers for a reader that does not read. */
const LARGE_BYTES = 16 * 1024 * 1024;

const viewersGet = (path: string) =>
  `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKENS.viewer}\r\n\r\n`;

/** Sends requests over one connection, and reads only the start of the first answer. */
async function sendRequests({ address }: TestOperator, requests: string): Promise<Socket> {
  const socket = connect(Number(address.split(":")[1]), "127.0.0.1");
  ends.defer(() => socket.destroy());
  socket.on("error", () => {});
  socket.write(requests);
  await once(socket, "data");
  socket.pause();
  return socket;
}

async function largeBody(): Promise<string> {
  const [id = ""] = await calls.fail([{ body: Buffer.alloc(LARGE_BYTES) }]);
  return `/api/v1/failed/${id}/body`;
}

onlyInLongRun(() => {
  test("while readers of one name read nothing of their bodies, another name gets lists and bodies", async () => {
    const service = await fixture.start();
    const path = await largeBody();
    const thrice = viewersGet(path).repeat(3);
    await Promise.all(Array.from({ length: 8 }, () => sendRequests(service, thrice)));
    const further = await service.get(path, { as: "viewer" });
    expect(refusalOf(further)).toEqual([429, "request.rate_limited"]);

    expect((await service.get("/api/v1/failed", { as: "viewer" })).status).toBe(200);
    expect((await service.get("/api/v1/failed")).status).toBe(200);
    const { status, body } = await service.get(path);
    expect([status, body.length]).toEqual([200, LARGE_BYTES]);
  });
});

test("a request whose own body comes slowly does not block lists", async () => {
  const service = await fixture.start();
  const slow = [
    "POST /api/v1/payments/refunds/exports HTTP/1.1",
    "Host: localhost",
    `Authorization: Bearer ${TOKENS.operator}`,
    "Content-Type: application/json",
    "Content-Length: 100",
    "Expect: 100-continue",
    "\r\n",
  ].join("\r\n");
  // The service reads the body of a request after it has answered 100.
  await Promise.all(Array.from({ length: 16 }, () => sendRequests(service, slow)));
  expect((await service.get("/api/v1/failed")).status).toBe(200);
});

/** Whether the viewer can get this many bodies now. */
async function hasFreeSlots(service: TestOperator, path: string, places = 1): Promise<boolean> {
  const all = await Promise.all(Array.from({ length: places }, () => service.get(path, { as: "viewer" })));
  return all.every(({ status, body }) => status === 200 && body.length === LARGE_BYTES);
}

onlyInLongRun(() => {
  test("a reader that stops reading is disconnected, and its slot is free again", async () => {
    const service = await fixture.start({ pace: { spanMs: 250, bytesMin: 1 } });
    const path = await largeBody();
    await Promise.all(Array.from({ length: 4 }, () => sendRequests(service, viewersGet(path))));
    await eventually("all places are free", () => hasFreeSlots(service, path, 4));
  });
});

/** Takes all slots of the viewer for bodies, behind a stream on the same connection. */
async function takeBehindStream(service: TestOperator, path: string): Promise<Socket> {
  const socket = await sendRequests(service, viewersGet("/api/v1/live") + viewersGet(path).repeat(4));
  await eventually("no place is left", async () => !(await hasFreeSlots(service, path)));
  return socket;
}

onlyInLongRun(() => {
  test("bodies that wait behind a stream free their slots when the connection is closed", async () => {
    const service = await fixture.start();
    const path = await largeBody();
    (await takeBehindStream(service, path)).resetAndDestroy();
    await eventually("all places are free", () => hasFreeSlots(service, path, 4));
  });

  test("bodies that wait behind a stream for longer than a span free their slots, and their connection is closed", async () => {
    const service = await fixture.start({ pace: { spanMs: 2000, bytesMin: 64 * 1024 } });
    const path = await largeBody();
    const socket = await takeBehindStream(service, path);
    socket.resume();
    await once(socket, "close");
    await eventually("all places are free", () => hasFreeSlots(service, path, 4));
  });
});

test("refusals that wait behind an unread file leave no timer when the connection is closed", async () => {
  const pageDir = tempDir();
  writeFileSync(join(pageDir, "large.js"), Buffer.alloc(LARGE_BYTES));
  const spanMs = 123_456;
  const service = await fixture.start({ pageDir, pace: { spanMs, bytesMin: 1 } });
  const begun = vi.spyOn(globalThis, "setInterval");
  const ended = vi.spyOn(globalThis, "clearInterval");
  ends.defer(() => vi.restoreAllMocks());
  const timers = () => begun.mock.results.filter((_, i) => begun.mock.calls[i]?.[1] === spanMs);
  const left = () => timers().filter(({ value }) => !ended.mock.calls.some(([timer]) => timer === value));

  const nobodysGet = (path: string) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;
  const socket = await sendRequests(service, nobodysGet("/large.js") + nobodysGet("/x").repeat(30));
  await eventually("all are under way", () => left().length === 31);
  socket.resetAndDestroy();
  await eventually("no timer is left", () => left().length === 0);
});

/** Continues to read 1.6 MB per second, even if its timer is late. Returns a function with the number of bytes so far. */
function trickle(socket: Socket): () => number {
  let bytes = 0;
  const begun = performance.now();
  const timer = setInterval(() => {
    const due = Math.round((performance.now() - begun) * 1600) - bytes;
    const piece: unknown = socket.read(Math.min(Math.max(due, 0), socket.readableLength));
    if (Buffer.isBuffer(piece)) bytes += piece.length;
  }, 10);
  ends.defer(() => clearInterval(timer));
  return () => bytes;
}

onlyInLongRun(() => {
  test("a body holds its slot until its reader has it or disconnects", async () => {
    const service = await fixture.start();
    const path = await largeBody();
    const [first, second] = await Promise.all(
      Array.from({ length: 4 }, () => sendRequests(service, viewersGet(path))),
    );
    expect((await service.get(path, { as: "viewer" })).status).toBe(429);
    first?.resume();
    await eventually("one has its body", () => hasFreeSlots(service, path));
    second?.destroy();
    await eventually("another is gone", () => hasFreeSlots(service, path, 2));
  });

  test("a reader that is slower than the pace is disconnected, although it reads something in each span", async () => {
    const service = await fixture.start({ pace: { spanMs: 2000, bytesMin: 8 * 1024 * 1024 } });
    const path = await largeBody();
    const sockets = await Promise.all(
      Array.from({ length: 4 }, () => sendRequests(service, viewersGet(path))),
    );
    const taken = sockets.map(trickle);
    await eventually("all places are free", () => hasFreeSlots(service, path, 4));
    for (const bytes of taken) expect(bytes()).toBeLessThan(LARGE_BYTES / 2);
  });

  test("a slow reader that keeps the pace gets the whole answer, over several spans", async () => {
    const service = await fixture.start({ pace: { spanMs: 2000, bytesMin: 1 } });
    const begun = performance.now();
    const taken = trickle(await sendRequests(service, viewersGet(await largeBody())));
    await eventually("all of it is there", () => taken() >= LARGE_BYTES - 64 * 1024);
    expect(performance.now() - begun).toBeGreaterThan(6000);
  });
});
