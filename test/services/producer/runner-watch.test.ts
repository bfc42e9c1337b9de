import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, createServer, type Server } from "node:net";
import { expect, test } from "vitest";
import { createProbe, createRunnerWatch } from "../../../services/producer/runner-watch.ts";
import { freePort } from "../../../shared/dev/free-port.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { recordingLog } from "../../support/recording-log.ts";

const ends = useEnds();
const URL_OF_RUNNER = "http://runner.test";

/** A watch whose probes wait until the test answers them, and whose clock changes only when the test changes it. */
function startWatch() {
  const log = recordingLog();
  const answers: ((isThere: boolean) => void)[] = [];
  const changes: boolean[] = [];
  const time = { now: 1000 };
  const watch = createRunnerWatch({
    runner: "default",
    url: URL_OF_RUNNER,
    probe: () => new Promise((resolve) => answers.push(resolve)),
    clock: () => time.now,
    log,
    pauses: { baseMs: 1, capMs: 2 },
  });
  ends.defer(watch.close);
  watch.onChange(() => changes.push(watch.isAway()));
  const fail = (times: number) => {
    for (let i = 0; i < times; i++) watch.failed("connect ECONNREFUSED", time.now);
  };
  const probed = (times: number) => eventually(`${times} probes`, () => answers.length === times);
  return { watch, log, answers, changes, time, fail, probed };
}

test("a runner is away after three consecutive failed connections, but not if it answered in between", () => {
  const { watch, changes, fail } = startWatch();
  fail(2);
  watch.answered();
  fail(2);
  expect(watch.isAway()).toBe(false);
  fail(1);
  expect(watch.isAway()).toBe(true);
  fail(5);
  expect(changes).toEqual([true]);
});

test("a runner's health says whether it answers, since when and why it does not, and when it last answered", () => {
  const { watch, time, fail } = startWatch();
  const its = { name: "default", url: URL_OF_RUNNER };
  expect(watch.health()).toEqual({ ...its, state: "unasked" });
  watch.answered();
  expect(watch.health()).toEqual({ ...its, state: "answers", answeredAt: 1000 });
  time.now = 2000;
  watch.unanswered("no answer within 15 s", 500);
  expect(watch.health().state).toBe("answers"); // the call that failed began before the last answer
  watch.unanswered("no answer within 15 s", 1500);
  time.now = 3000;
  fail(1);
  const reason = "connect ECONNREFUSED";
  expect(watch.health()).toEqual({ ...its, state: "silent", since: 2000, reason, answeredAt: 1000 });
  fail(2);
  expect(watch.health()).toEqual({ ...its, state: "away", since: 3000, reason, answeredAt: 1000 });
  time.now = 4000;
  watch.answered();
  expect(watch.health()).toEqual({ ...its, state: "answers", answeredAt: 4000 });
});

test("the health of a runner that has failed since the producer's start says that this may have begun earlier", () => {
  const { watch, time, fail } = startWatch();
  const its = { name: "default", url: URL_OF_RUNNER };
  fail(3);
  const away = { ...its, state: "away", since: 1000, reason: "connect ECONNREFUSED" };
  expect(watch.health()).toEqual({ ...away, orEarlier: true });
  time.now = 2000;
  watch.answered();
  time.now = 3000;
  fail(3);
  expect(watch.health()).toEqual({ ...away, since: 3000, answeredAt: 2000 });

  const other = startWatch().watch;
  other.answered("502 Bad Gateway");
  other.answered("502 Bad Gateway");
  expect(other.health()).toMatchObject({ state: "failing", since: 1000, orEarlier: true });
  other.answered();
  other.answered("502 Bad Gateway");
  expect(other.health()).not.toHaveProperty("orEarlier");
});

test("a runner is failing since the first of its consecutive failures, until another answer or a probe", async () => {
  const { watch, answers, time, fail, probed } = startWatch();
  watch.answered();
  time.now = 2000;
  watch.answered("502 Bad Gateway");
  time.now = 3000;
  watch.answered("503 no server");
  const its = { name: "default", url: URL_OF_RUNNER };
  const failing = { ...its, state: "failing", since: 2000, reason: "503 no server", answeredAt: 3000 };
  expect(watch.health()).toEqual(failing);
  watch.unanswered("no answer within 15 s", 3000);
  expect(watch.health().state).toBe("silent");
  watch.answered("503 no server");
  expect(watch.health()).toEqual({ ...failing, since: 3000 });
  fail(3);
  expect(watch.health().state).toBe("away");
  await probed(1);
  answers[0]?.(true);
  await eventually("it has returned", () => !watch.isAway());
  expect(watch.health().state).toBe("answers");
  watch.answered("502 Bad Gateway");
  watch.answered();
  expect(watch.health()).toEqual({ ...its, state: "answers", answeredAt: 3000 });
});

test("occasional failed connections are logged with their number, because no call's event reports them", () => {
  const { watch, log, fail } = startWatch();
  for (let i = 0; i < 4; i++) {
    fail(2);
    watch.answered();
  }
  expect(log.events).toEqual([]);
  watch.close();
  const fields = { runner: "default", url: URL_OF_RUNNER, reason: "connect ECONNREFUSED", times: 4 };
  expect(log.events).toEqual([{ event: "runner.connect_failed", fields }]);
});

test("a failed connection that began before the last answer does not count", () => {
  const { watch, time, fail } = startWatch();
  fail(2);
  time.now += 100;
  watch.answered();
  for (let i = 0; i < 3; i++) watch.failed("connect timeout", time.now - 50);
  expect(watch.isAway()).toBe(false);
});

test("a runner that is away gets one probe at a time until it answers; each change logs one line", async () => {
  const { watch, log, answers, changes, time, fail, probed } = startWatch();
  fail(50);
  await probed(1);
  answers[0]?.(false);
  await probed(2);
  expect(watch.isAway()).toBe(true);
  time.now += 60_000;
  answers[1]?.(true);
  await eventually("it has returned", () => !watch.isAway());
  expect(changes).toEqual([true, false]);
  const runner = { runner: "default", url: URL_OF_RUNNER };
  expect(log.events).toEqual([
    { event: "runner.down", fields: { ...runner, reason: "connect ECONNREFUSED" } },
    { event: "runner.up", fields: { ...runner, awayMs: 60_000 } },
  ]);
});

test("an answer to a call in flight ends the outage too, even if the probe fails later", async () => {
  const { watch, answers, changes, fail, probed } = startWatch();
  fail(3);
  await probed(1);
  watch.answered();
  expect(watch.isAway()).toBe(false);
  answers[0]?.(false);
  await Promise.resolve();
  expect([watch.isAway(), ...changes]).toEqual([false, true, false]);
});

async function portOf(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  ends.defer(() => server.close());
  return (server.address() as AddressInfo).port;
}

test("a probe requests /livez below the runner's URL, and any answer shows that the runner is there", async () => {
  const asked: string[] = [];
  const server = createHttpServer((req, res) => {
    asked.push(`${req.method} ${req.url}`);
    res.writeHead(503).end();
  });
  const port = await portOf(server);
  expect(await createProbe(`http://127.0.0.1:${port}/base/`)()).toBe(true);
  expect(asked).toEqual(["GET /base/livez"]);
});

test("a probe counts a connection without an answer as success, and a refused connection as failure", async () => {
  const cut = createServer((socket) => socket.on("error", () => {}).once("data", () => socket.destroy()));
  expect(await createProbe(`http://127.0.0.1:${await portOf(cut)}`)()).toBe(true);
  expect(await createProbe(`http://127.0.0.1:${await freePort()}`)()).toBe(false);
});
