import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { readBody } from "../../../../shared/http/body.ts";
import { type BodyBudget, createBodyBudget } from "../../../../shared/http/body-budget.ts";
import { createClientAddressOf } from "../../../../shared/http/client-address.ts";
import { listen } from "../../../../shared/http/listen.ts";
import { sendProblem } from "../../../../shared/http/problem.ts";
import { toAppError } from "../../../../shared/platform/errors/app-error.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { type OpenRaw, openRaw, sendRaw } from "../../../support/http.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { recordingLog } from "../../../support/recording-log.ts";

const ends = useEnds();
const KIB = 1024;
const LIMIT = 8 * KIB * KIB;

/**
 * Starts a server with a budget of 1 MiB that answers with the number of bytes. The path /proven is authenticated
 * before its body. The path /held is answered when `held` is called. A request for /waiting waits unauthenticated until
 * it is cut. The path /decoded reserves as many bytes as its query says.
 */
async function serve() {
  const log = recordingLog();
  const bodies = createBodyBudget({ bytesMax: KIB * KIB, addressOf: createClientAddressOf(), log });
  const held: (() => void)[] = [];
  const server = await listen(async (req, res) => {
    const lease = bodies.lease(req);
    try {
      if (req.url === "/proven") lease.markVerified();
      const body = await readBody(req, res, LIMIT, { lease });
      if (req.url?.startsWith("/decoded")) lease.reserve(Number(req.url.split("?")[1]));
      if (req.url === "/held") await new Promise<void>((resolve) => held.push(resolve));
      if (req.url === "/waiting") await new Promise<void>((_, reject) => lease.wait(reject));
      res.end(String(body.length));
    } catch (thrown) {
      sendProblem(req, res, toAppError(thrown));
    } finally {
      lease.release();
    }
  }, "127.0.0.1:0");
  ends.defer(() => server.close(0));

  /** Sends the head of a request and a part of its body. Resolves when the part has arrived, or when a body was cut. */
  const begin = async (
    from: string,
    sent: number,
    { of = LIMIT, path = "/", cuts: cut = [] as OpenRaw[] } = {},
  ) => {
    const before = bodies.bytes();
    const bytes = "x".repeat(sent);
    const head = `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: ${of}\r\n\r\n`;
    const sender = openRaw(server.address, head + bytes, from);
    const answered = () => [sender, ...cut].some(isAnswered);
    ends.defer(() => sender.socket.destroy());
    await eventually("it has arrived", () => bodies.bytes() - before >= sent || answered());
    return sender;
  };
  return { address: server.address, begin, bodies, held, log };
}

const isAnswered = (sender: OpenRaw) => sender.received().includes("HTTP/1.1");
const finish = async (sender: OpenRaw, rest: number) => {
  sender.socket.write("x".repeat(rest));
  await eventually("it is answered", () => sender.received().includes("\r\n\r\n"));
  return sender.received();
};
const untilEmpty = (bodies: BodyBudget) => eventually("nothing is in flight", () => bodies.bytes() === 0);

test("once the budget is used up, the address whose unverified bodies use most loses the largest of them, and no other body is cut", async () => {
  const { begin, bodies, log } = await serve();
  const largest = await begin("127.0.0.2", 400 * KIB);
  const smaller = await begin("127.0.0.2", 150 * KIB, { of: 150 * KIB + 1 });
  const other = await begin("127.0.0.3", 200 * KIB, { of: 200 * KIB + 1 });
  const small = await begin("127.0.0.4", 300 * KIB, { of: 300 * KIB + 1, cuts: [largest] });
  expect(largest.received()).toMatch(/^HTTP\/1\.1 503/);
  expect(largest.received()).toContain('"code":"request.over_budget"');
  expect(largest.received()).toMatch(/Retry-After: 5\r\n/);
  expect(largest.received()).toMatch(/Connection: close/i);
  for (const sender of [smaller, other, small]) expect(await finish(sender, 1)).toMatch(/^HTTP\/1\.1 200/);
  await untilEmpty(bodies);
  bodies.flush();
  expect(log.events).toEqual([{ event: "http.bodies_cut", fields: expect.objectContaining({ times: 1 }) }]);
});

test("one address may use the whole budget while no other address needs it", async () => {
  const { begin } = await serve();
  const senders = await Promise.all(
    Array.from({ length: 6 }, () => begin("127.0.0.2", 110 * KIB, { of: 110 * KIB + 1 })),
  );
  for (const sender of senders) expect(await finish(sender, 1)).toMatch(/^HTTP\/1\.1 200/);
});

test("a verified body is never cut, even if it alone exceeds the budget, and unverified bodies are cut for it", async () => {
  const { begin, bodies } = await serve();
  const unproven = await begin("127.0.0.2", 10 * KIB);
  const proven = await begin("127.0.0.3", 900 * KIB, { of: 3000 * KIB, path: "/proven" });
  expect(isAnswered(unproven)).toBe(false);
  expect(await finish(proven, 2100 * KIB)).toMatch(/^HTTP\/1\.1 200/);
  expect(unproven.received()).toMatch(/^HTTP\/1\.1 503/);
  await untilEmpty(bodies);
});

test("a complete body is not cut, and counts until its request ends", async () => {
  const { begin, bodies, held } = await serve();
  const whole = await begin("127.0.0.2", 800 * KIB, { of: 800 * KIB, path: "/held" });
  await eventually("it is whole", () => held.length === 1);
  const next = await begin("127.0.0.3", 300 * KIB);
  await eventually("the one that can be cut is", () => isAnswered(next));
  expect(next.received()).toMatch(/^HTTP\/1\.1 503/);
  expect(bodies.bytes()).toBe(800 * KIB);
  held[0]?.();
  await eventually("it is answered", () => isAnswered(whole));
  expect(whole.received()).toMatch(/^HTTP\/1\.1 200/);
  expect(bodies.bytes()).toBe(0);
});

test("a complete body that waits for verification can be cut like one that is arriving, even if it arrived in one chunk", async () => {
  const { begin, bodies } = await serve();
  const small = await begin("127.0.0.2", 2 * KIB, { of: 2 * KIB, path: "/waiting" });
  const large = await begin("127.0.0.2", 700 * KIB, { of: 700 * KIB, path: "/waiting" });
  const other = await begin("127.0.0.3", 400 * KIB, { of: 400 * KIB + 1, cuts: [large] });
  expect(large.received()).toContain('"code":"request.over_budget"');
  await eventually("the other has arrived", () => bodies.bytes() >= 402 * KIB);
  expect(await finish(other, 1)).toMatch(/^HTTP\/1\.1 200/);
  const more = await begin("127.0.0.2", 1023 * KIB, { of: KIB * KIB, cuts: [small] });
  expect(small.received()).toBe("");
  more.socket.destroy();
});

test("a body that would grow beyond the remaining budget is refused with 503", async () => {
  const { address } = await serve();
  const ask = (bytes: number) =>
    sendRaw(
      address,
      `POST /decoded?${bytes} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx`,
    );
  expect(await ask(1000 * KIB)).toMatch(/^HTTP\/1\.1 200/);
  expect(await ask(1100 * KIB)).toMatch(/^HTTP\/1\.1 503/);
});

onlyInLongRun(() => {
  test("a body in chunks of one byte counts with the memory that it uses, which is little more than its bytes", async () => {
    const { address, begin, bodies } = await serve();
    const sender = openRaw(address, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    ends.defer(() => sender.socket.destroy());
    for (let i = 0; i < 100; i++) sender.socket.write("1\r\nx\r\n".repeat(KIB));
    await eventually("all has arrived", () => bodies.bytes() >= 100 * KIB);
    expect(bodies.bytes()).toBeLessThan(170 * KIB);
    await begin("127.0.0.2", 1000 * KIB);
    sender.socket.write("0\r\n\r\n");
    await eventually("it is answered", () => sender.received().includes(`${100 * KIB}`));
  });
});

test.each([
  ["its sender disconnects", (sender: OpenRaw) => sender.socket.destroy()],
  [
    "it is over the limit",
    (sender: OpenRaw) =>
      sender.socket.write(`${(9 * KIB * KIB).toString(16)}\r\n${"x".repeat(9 * KIB * KIB)}`),
  ],
  ["it is no longer valid HTTP", (sender: OpenRaw) => sender.socket.write("garbage\r\n")],
])("a body no longer counts in the budget when %s", async (_what, end) => {
  const { address, bodies } = await serve();
  const sender = openRaw(
    address,
    "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n",
  );
  ends.defer(() => sender.socket.destroy());
  await eventually("it has arrived", () => bodies.bytes() > 0);
  end(sender);
  await untilEmpty(bodies);
});
