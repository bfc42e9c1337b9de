import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { randomCallId } from "../../shared/call/call-id.ts";
import { createResults } from "../../shared/call/results/store.ts";
import { type Child, spawnChild } from "../../shared/dev/child.ts";
import { freePort } from "../../shared/dev/free-port.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { sha256Hex } from "../../shared/platform/crypto/compare.ts";
import { contentDigest, signMessage } from "../../shared/platform/crypto/message-signature.ts";
import { Secret } from "../../shared/platform/crypto/secret.ts";
import { useDeliveries } from "../fixtures/deliveries.ts";
import { useEnds } from "../fixtures/ends.ts";
import { usePostern } from "../fixtures/postern.ts";
import { aCall, RUNNER_SECRET, useProducer } from "../fixtures/producer.ts";
import { keys } from "../fixtures/redis.ts";
import { apart, readyOf, startDev } from "../services/dev/use-dev.ts";
import { send } from "../support/http.ts";
import { needs, pathOf } from "../support/needs.ts";
import { tempDir } from "../support/temp-dir.ts";
import { blocksOf } from "./blocks.ts";

const postern = usePostern();
const producers = useProducer();
const deliveries = useDeliveries({ redis: producers.redis });
const ends = useEnds();

let host: string;
/** The folder in which the runner keeps its answers. */
let dir: string;
let lines: string[];
beforeEach(async () => {
  host = `127.0.0.1:${await freePort()}`;
  dir = tempDir();
  lines = [];
});

/** Runs the runner of docs/runner.md unchanged, except for its port and the duration of a job. */
async function startRunner(secret: string, deliverTo?: string, jobSeconds = 0.5): Promise<Child> {
  const block = blocksOf("docs/runner.md").find(({ language }) => language === "python");
  const file = join(dir, "runner.py");
  const program = String(block?.text)
    .replace('"127.0.0.1", 7000', `"127.0.0.1", ${host.split(":")[1]}`)
    .replace("time.sleep(0.5)", `time.sleep(${jobSeconds})`);
  writeFileSync(file, program);
  const env = { ...process.env, POSTERN_RUNNER_SECRET: secret, POSTERN_DELIVER_TO: deliverTo };
  const onLine = (line: string) => lines.push(line);
  const runner = spawnChild({ command: pathOf("python"), args: [file], env, cwd: dir, onLine });
  ends.defer(() => runner.kill("SIGKILL"));
  await eventually("the runner listens", async () => (await send(host, { path: "/" })).status > 0);
  return runner;
}

/** Number of effects for each key. */
function effects(): Record<string, number> {
  const query = "SELECT key, count(*) FROM effects GROUP BY key";
  const program = `import json, sqlite3; print(json.dumps(dict(sqlite3.connect("runner.db", timeout=60).execute("${query}"))))`;
  return JSON.parse(execFileSync(pathOf("python"), ["-c", program], { cwd: dir, encoding: "utf8" }));
}

/** Sends a call to the runner as a producer does. */
function offer(secret: string, path: string, id: string, body = "hello") {
  const covered = { "content-digest": contentDigest(sha256Hex(Buffer.from(body))), "idempotency-key": id };
  const signed = { method: "POST", path, headers: covered };
  const signature = signMessage(new Secret(secret), signed, Math.floor(Date.now() / 1000));
  return send(host, { path, body, headers: { ...covered, ...signature } });
}

const begun = (id: string) => lines.filter((line) => line.includes(` ${id} `)).length;

test(
  "the runner in Python of docs/runner.md runs a webhook and a payment that dev sends it",
  needs("python"),
  async () => {
    const dev = startDev(postern, ["--runner", `http://${host}`, ...(await apart())]);
    const ready = await readyOf(dev);
    await startRunner(ready.ownRunner?.secret ?? "");
    const { status } = await send(new URL(ready.webhooks).host, {
      path: "/hooks/open",
      body: "by webhook",
    });
    expect(status).toBe(202);
    const [job] = ready.jobs;
    const [, payer = ""] = /POSTERN_PAYER_KEY=(0x\w+)/.exec(job?.pay ?? "") ?? [];
    const pay = ["pay", job?.url ?? "", "--body", "by payment"];
    expect((await postern.run(pay, { env: { POSTERN_PAYER_KEY: payer } })).code).toBe(0);
    const ran = () => lines.filter((line) => line.startsWith("/jobs/1 "));
    await eventually("both calls have run", () => ran().length === 2);
    expect(lines.join("\n")).toMatch(/\/jobs\/1 c_\w+ by webhook/);
    expect(lines.join("\n")).toMatch(/\/jobs\/1 c_\w+ by payment/);
  },
);

test(
  "the runner in Python of docs/runner.md delivers the result of its long job",
  needs("python"),
  async () => {
    const secret = "s".repeat(32);
    const gateway = await deliveries.start({ runner: { secret }, results: { deliveries: true } });
    await startRunner(secret, `http://${gateway.address}`);
    const id = randomCallId();
    const answer = await offer(secret, "/jobs/3", id);
    expect(answer.status).toBe(202);
    const read = await eventually("its result is there", async () => {
      const found = await gateway.results.read(id);
      return found.kind === "answer" ? found : undefined;
    });
    expect(read).toMatchObject({ status: 200, contentType: "text/plain", body: Buffer.from("long: hello") });
  },
);

test(
  "the runner in Python of docs/runner.md accepts a producer's signed request once, and no changed one",
  needs("python"),
  async () => {
    await startRunner("s");
    const now = Math.floor(Date.now() / 1000);
    const covered = {
      "content-digest": contentDigest(sha256Hex(Buffer.from("hello"))),
      "content-type": "text/plain",
      "idempotency-key": "c_1",
      "x-platform-call-id": "c_1",
    };
    type Change = { body?: string; path?: string; secret?: string; created?: number; more?: object };
    const post = async ({
      body = "hello",
      path = "/jobs/1",
      secret = "s",
      created = now,
      more,
    }: Change = {}) => {
      const signed = { method: "POST", path: "/jobs/1", headers: covered };
      const signature = signMessage(new Secret(secret), signed, created);
      const headers = Object.entries({ ...covered, ...signature, ...more }).flat();
      return (await send(host, { path, body, headers })).status;
    };
    expect([await post(), await post()]).toEqual([200, 200]);
    expect(lines.filter((line) => line.startsWith("/jobs/1 "))).toEqual(["/jobs/1 c_1 hello"]);
    for (const changed of [
      { body: "hullo" },
      { path: "/jobs/2" },
      { secret: "t" },
      { created: now - 310 },
      { created: now + 70 },
      { more: { "x-webhook-name": "other" } },
      { more: { "content-type": "text/html" } },
      { more: { Signature: "postern=:AAAA:" } },
      { more: { "Signature-Input": "none" } },
    ])
      expect([changed, await post(changed)]).toEqual([changed, 401]);
  },
);

test(
  "the runner in Python of docs/runner.md has one effect and one result of each call, under kills and a timeout shorter than the job",
  needs("python"),
  async () => {
    // Even a busy machine must answer the repeat of a call before the timeout, while the job still runs.
    const startSlow = () => startRunner(RUNNER_SECRET, undefined, 3);
    let runner = await startSlow();
    const calls = Array.from({ length: 12 }, (_, i) =>
      aCall({ keep_result: true, body: Buffer.from(`call ${i}`) }),
    );
    for (const call of calls) await producers.add(call);
    const { saw, log } = producers.start({
      runnerUrl: `http://${host}`,
      timeoutMs: 1000,
      attempts: 20,
      concurrency: 4,
    });
    for (let kills = 1; kills <= 4; kills++) {
      const before = lines.length;
      await eventually("jobs run", () => lines.length >= before + 2);
      await runner.kill("SIGKILL");
      runner = await startSlow();
    }
    await saw("call.injected", calls.length);
    expect(effects()).toEqual(Object.fromEntries(calls.map(({ id }) => [id, 1])));
    const results = createResults(producers.redis.partition);
    for (const [i, { id }] of calls.entries())
      expect(await results.read(id)).toMatchObject({
        ...{ kind: "answer", status: 200, contentType: "text/plain", body: Buffer.from(`CALL ${i}`) },
      });
    // Killed calls ran again, and timed-out calls were offered again while they ran.
    expect(lines.length).toBeGreaterThan(calls.length);
    const codes = new Set(log.events.map(({ fields }) => fields["code"]));
    expect([...codes]).toEqual(expect.arrayContaining(["runner.timed_out", "runner.busy"]));
  },
);

test(
  "the runner in Python of docs/runner.md answers a repeat with 409 while the call runs, then with its first answer, also after a restart",
  needs("python"),
  async () => {
    let runner = await startRunner("s");
    const first = offer("s", "/jobs/1", "c_1");
    await eventually("it runs", () => begun("c_1") === 1);
    const early = await offer("s", "/jobs/1", "c_1");
    expect([early.status, early.headers["retry-after"]]).toEqual([409, "1"]);
    const contentOf = ({ status, headers, text }: Awaited<typeof first>) => [
      status,
      headers["content-type"],
      text,
    ];
    const answer = [200, "text/plain", "HELLO"];
    expect(contentOf(await first)).toEqual(answer);
    expect(contentOf(await offer("s", "/jobs/1", "c_1"))).toEqual(answer);

    const cut = offer("s", "/jobs/1", "c_2").catch(() => "cut");
    await eventually("it runs", () => begun("c_2") === 1);
    await runner.kill("SIGKILL");
    expect(await cut).toBe("cut");
    runner = await startRunner("s");
    expect(contentOf(await offer("s", "/jobs/1", "c_1"))).toEqual(answer);
    expect(contentOf(await offer("s", "/jobs/1", "c_2"))).toEqual(answer);
    expect([begun("c_1"), begun("c_2"), effects()]).toEqual([1, 2, { c_1: 1, c_2: 1 }]);
  },
);

test(
  "the runner in Python of docs/runner.md continues its long job after a kill, and reports the progress",
  needs("python"),
  async () => {
    const secret = "s".repeat(32);
    const gateway = await deliveries.start({ runner: { secret }, results: { deliveries: true } });
    const runner = await startRunner(secret, `http://${gateway.address}`);
    const id = randomCallId();
    await deliveries.redis.client.hset(keys.record(id), { st: "INJECTED", at: "5", rs: "awaited" });
    expect((await offer(secret, "/jobs/3", id)).status).toBe(202);
    await eventually("its progress is there", async () => {
      const found = await gateway.results.read(id);
      return found.kind === "pending" && found.progress?.json.includes('"step":1,"steps":2');
    });
    await runner.kill("SIGKILL");
    expect(effects()).toEqual({});
    await startRunner(secret, `http://${gateway.address}`);
    await eventually("its result is there", async () => (await gateway.results.read(id)).kind === "answer");
    expect((await offer(secret, "/jobs/3", id)).status).toBe(202);
    expect([begun(id), effects()]).toEqual([1, { [id]: 1 }]);
  },
);

test(
  "the runner in Python of docs/runner.md delivers again after 503, stops at a refusal for good, and keeps the result",
  needs("python"),
  async () => {
    const statuses = [503, 413, 400, 204];
    const taken: string[] = [];
    const gateway = createServer(async (req, res) => {
      const body = Buffer.concat(await req.toArray()).toString();
      if (req.method === "POST") return void res.writeHead(204).end();
      taken.push(body);
      res.writeHead(statuses[taken.length - 1] ?? 500).end();
    });
    gateway.listen(0, "127.0.0.1");
    await once(gateway, "listening");
    ends.defer(() => void gateway.close());
    const deliverTo = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}`;
    const refused = (status: number) => lines.some((line) => line.includes(`is refused with ${status}`));

    let runner = await startRunner("s", deliverTo);
    expect((await offer("s", "/jobs/3", "c_1")).status).toBe(202);
    for (const status of [413, 400]) {
      await eventually(`it is told of ${status}`, () => refused(status));
      await runner.kill("SIGKILL");
      runner = await startRunner("s", deliverTo);
    }
    await eventually("it is taken", () => taken.length === 4);
    expect(new Set(taken)).toEqual(new Set(["long: hello"]));
    expect(effects()).toEqual({ c_1: 1 });
  },
);
