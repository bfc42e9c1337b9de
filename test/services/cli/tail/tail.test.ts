import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { toLine } from "../../../../services/cli/tail/tail.ts";
import { NotNow, Refused } from "../../../../services/producer/producer.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { LEASE_MS } from "../../../../shared/telemetry/events/follow.ts";
import { TOKENS, useOperator } from "../../../fixtures/console.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { usePostern } from "../../../fixtures/postern.ts";
import { useProducer } from "../../../fixtures/producer.ts";
import { asUser, keys, useRedis } from "../../../fixtures/redis.ts";
import { useRedisProxy } from "../../../fixtures/redis-proxy.ts";
import { useWebhooks } from "../../../fixtures/webhooks.ts";
import { send } from "../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { runHereWith } from "../run-here.ts";

const redis = useRedis();
const proxy = useRedisProxy(redis);
const webhooks = useWebhooks({ redis });
const producers = useProducer({ redis });
const consoles = useOperator({ redis });
const postern = usePostern(() => ({ postern: { redis: { url: asUser(redis.url, "operator") } } }));

const ends = useEnds();

const ENDPOINTS = [
  { path: "/a", job_id: 1, auth: "none" },
  { path: "/b", job_id: 2, auth: "bearer", secret: "the secret of b" },
];

let address: string;
beforeEach(async () => {
  ({ address } = await webhooks.start({ endpoints: ENDPOINTS }));
});

type Line = Record<string, unknown>;

/** Starts `postern tail` in a separate process. Resolves once it follows. */
async function startTail() {
  const said: string[] = [];
  const running = postern.start(["tail"], { onLine: (line) => said.push(line) });
  await eventually("it follows", () => said.some((line) => line.startsWith("following: ")));
  return running;
}

/** Starts `postern tail` in this process. Resolves once it follows; it ends after the test. */
async function tail(...args: string[]) {
  const said: string[] = [];
  const lines: Line[] = [];
  const ran = runHereWith(postern)(["tail", ...args], {}, {}, (line) => {
    said.push(line);
    if (line.startsWith("{")) lines.push(JSON.parse(line) as Line);
  });
  ends.defer(async () => {
    process.emit("SIGHUP", "SIGHUP"); // the only signal that may come twice, which happens with two tails
    expect(await ran).toMatchObject({ code: 0 });
  });
  await eventually("it follows", () => said.some((line) => line.startsWith("following: ")));
  return {
    said,
    lines,
    saw: (wanted: Line) =>
      eventually(`it shows ${JSON.stringify(wanted)}`, () =>
        lines.some((line) => Object.entries(wanted).every(([key, value]) => line[key] === value)),
      ),
  };
}

const published = async (): Promise<number> => {
  const stats = await redis.client.info("commandstats");
  return Number(/cmdstat_publish:calls=(\d+)/.exec(stats)?.[1] ?? 0);
};

test("postern tail shows a webhook that is accepted and then injected, and names the followed processes", async () => {
  producers.start({ inject: async () => {} });
  const { said, saw } = await tail();
  expect(said.join("\n")).toMatch(/following: .*webhooks gateway .*:\d+/);
  const answer = await send(address, { path: "/a", body: "the body" });
  const { call_id } = answer.json<{ call_id: string }>();
  await saw({ outcome: "accepted", endpoint: "/a", job: "7/1", call_id, bytes: 8, origin: "webhook" });
  await saw({ outcome: "injected", endpoint: "/a", job: "7/1", call_id, attempt: 1 });
  expect(said.join("\n")).not.toContain("the body");
});

onlyInLongRun(() => {
  test("postern tail shows failed attempts, and the call that fails for good", async () => {
    let tries = 0;
    producers.start({
      inject: async () => {
        tries += 1;
        throw tries === 1 ? new NotNow("not yet", 10) : new Refused("never");
      },
    });
    const { saw } = await tail();
    const { call_id } = (await send(address, { path: "/a", body: "x" })).json<{ call_id: string }>();
    const both = { call_id, endpoint: "/a", attempt: 1 };
    await saw({ ...both, outcome: "retried", code: "runner.busy", reason: "not yet", attempts_before: 0 });
    await saw({ ...both, outcome: "failed", code: "runner.refused", reason: "never", attempts_before: 1 });
  });
});

test("after a replay a line of postern tail also has the total number of attempts", () => {
  const event = { at: 0, origin: "webhook", outcome: "failed", call_id: "c_1", job: "7/1" } as const;
  const why = { code: "runner.failed", reason: "500" };
  const first = toLine({ ...event, ...why, attempt: 2, attempts_before: 1 });
  expect(first).toMatch(/ {2}attempt 2; runner\.failed; 500$/);
  const replayed = toLine({ ...event, ...why, attempt: 1, attempts_before: 5 });
  expect(replayed).toMatch(/ {2}attempt 1 \(6 in all\); runner\.failed; 500$/);
});

test("postern tail shows a refused webhook with its code and reason, and never the credential", async () => {
  const { said, saw } = await tail();
  const headers = { authorization: "Bearer a stranger's guess" };
  await send(address, { path: "/b", headers, body: "stranger's body" });
  await saw({ outcome: "refused", endpoint: "/b", code: "webhook.credential_rejected", reason: "mismatch" });
  await send(address, { path: "/B", body: "x" });
  await saw({ outcome: "refused", code: "request.not_found", path: "/B" });
  expect(said.join("\n")).not.toMatch(/guess|stranger's body/);
});

test("postern tail --operator shows the same through the console, and continues after the console is restarted", async () => {
  const first = await consoles.start();
  postern.configure({
    operator: { tokens: [{ name: "otto", role: "operator", token: TOKENS.operator }] },
  });
  const { said, saw, lines } = await tail("--operator", `http://${first.address}`, "--endpoint", "/a");
  expect(said.join("\n")).toMatch(/following: .*webhooks gateway .*:\d+/);
  const sendTo = async (path: string) =>
    (await send(address, { path, body: "the body" })).json<{ call_id: string }>().call_id;
  const call_id = await sendTo("/a");
  await saw({ outcome: "accepted", endpoint: "/a", job: "7/1", call_id, bytes: 8, origin: "webhook" });
  await first.close();
  const says = (line: string) => eventually(line, () => said.some((each) => each.startsWith(line)));
  await says("connection to the console lost (");
  await consoles.start({ address: first.address });
  await says("reconnected to the console; following again");
  const later = new Set<unknown>();
  await eventually("a gateway tells its events again", async () => {
    later.add(await sendTo("/a"));
    return lines.some(({ call_id: id }) => later.has(id));
  });
  expect(said.filter((line) => line.startsWith("also following: webhooks gateway"))).toEqual([]);
});

onlyInLongRun(() => {
  test("postern tail --operator exits with 1 and says why if the console refuses its token", async () => {
    const { address: at } = await consoles.start();
    const ran = await runHereWith(postern)(["tail", "--operator", `http://${at}`]);
    expect(ran).toMatchObject({ code: 1, stderr: expect.stringContaining("a token or a valid session") });
  });

  test("postern tail with a path that is not configured here says so, and follows nevertheless", async () => {
    postern.configure({
      postern: { redis: { url: asUser(redis.url, "operator") } },
      webhooks: { endpoints: ENDPOINTS },
    });
    const { said } = await tail("--endpoint", "/A");
    expect(said[0]).toBe("warning: no endpoint has the path /A; did you mean /a?");
  });

  test("postern tail with a path works without webhooks.toml, and with an unreadable one", async () => {
    const without = tail("--endpoint", "/a");
    postern.configure({ postern: { redis: { url: asUser(redis.url, "operator") } } });
    symlinkSync("nowhere", join(postern.configDir, "webhooks.toml"));
    const unreadable = tail("--endpoint", "/a");
    for (const { said } of await Promise.all([without, unreadable])) expect(said[0]).toMatch(/^following: /);
  });
});

const FILTERS = [
  ["--endpoint", "/a"],
  ["--job", "7/1"],
  ["--outcome", "accepted,failed"],
] as const;

test.each(sample(FILTERS))("postern tail %s %s leaves out all other events", async (option, value) => {
  const { lines, saw } = await tail(option, value);
  await send(address, { path: "/b", body: "x" });
  await send(address, { path: "/a", body: "x" });
  await saw({ outcome: "accepted", endpoint: "/a" });
  expect(lines).toHaveLength(1);
});

onlyInLongRun(() => {
  test("postern tail --call follows only one call", async () => {
    const first = (await send(address, { path: "/a", body: "1" })).json<{ call_id: string }>();
    await send(address, { path: "/a", body: "2" });
    const { lines, saw } = await tail("--call", first.call_id);
    producers.start({ inject: async () => {} });
    await saw({ outcome: "injected", call_id: first.call_id });
    await eventually("both are injected", async () => (await webhooks.waiting()).length === 0);
    expect(new Set(lines.map(({ call_id }) => call_id))).toEqual(new Set([first.call_id]));
  });

  test("postern tail --origin x402 shows no webhook", async () => {
    const [{ lines }, all] = await Promise.all([tail("--origin", "x402"), tail()]);
    await send(address, { path: "/a", body: "x" });
    await all.saw({ outcome: "accepted" });
    expect(lines).toEqual([]);
  });
});

test("processes publish events only while a client follows, and stop after a Ctrl-C", async () => {
  const before = await published();
  await send(address, { path: "/a", body: "x" });
  await webhooks.onlyCall();
  expect(await published()).toBe(before);

  const running = await startTail();
  expect(await running.kill("SIGINT")).toEqual({ code: 0, signal: null });
  expect(await redis.client.exists(keys.followed)).toBe(0);
});

onlyInLongRun(() => {
  test("a tail whose connection is dead without having closed opens another one", async () => {
    const subscribed: number[] = [];
    proxy.onCommand = (words, connection) => {
      if (words[0]?.toLowerCase() === "subscribe") subscribed.push(connection);
      const isDead = words[0]?.toLowerCase() === "ping" && connection === subscribed[0];
      return isDead ? { kind: "hang" } : undefined;
    };
    postern.configure({ postern: { redis: { url: asUser(proxy.url, "operator") } } });
    const { saw } = await tail();
    await eventually("it subscribes again", () => subscribed.length === 2);
    const { call_id } = (await send(address, { path: "/a", body: "x" })).json<{ call_id: string }>();
    await saw({ outcome: "accepted", call_id });
  });

  test("the lease of a killed tail expires by itself", async () => {
    const running = await startTail();
    await running.kill("SIGKILL");
    const leftMs = await redis.client.pttl(keys.followed);
    expect(leftMs).toBeGreaterThan(0);
    expect(leftMs).toBeLessThanOrEqual(LEASE_MS);
  });

  test("a flood of refusals is reported by its count, in few messages", async () => {
    const { lines } = await tail("--outcome", "refused");
    const before = await published();
    const flood = Array.from({ length: 500 }, () => send(address, { path: "/b", body: "x" }));
    await Promise.all(flood);
    const told = () => lines.reduce((sum, line) => sum + Number(line["times"]), 0);
    await eventually("all are counted", () => told() === 500);
    expect((await published()) - before).toBeLessThan(60);
  });
});
