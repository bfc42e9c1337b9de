import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { freePort } from "../../../shared/dev/free-port.ts";
import { startRedis } from "../../../shared/dev/redis.ts";
import { beforeDeadline, eventually } from "../../../shared/dev/wait.ts";
import { aclRules } from "../../../shared/redis/acl-rights.ts";
import { usePostern } from "../../fixtures/postern.ts";
import { DOMAIN, KEY } from "../../fixtures/pricing.ts";
import { useProducer } from "../../fixtures/producer.ts";
import { useOwnRedis } from "../../fixtures/redis.ts";
import { useWebhooks } from "../../fixtures/webhooks.ts";
import { x402Table } from "../../fixtures/x402.ts";
import { send } from "../../support/http.ts";
import { onlyInLongRun, sample } from "../../support/long-run.ts";
import { tempDir } from "../../support/temp-dir.ts";

const redis = useOwnRedis(["--databases", "4"]);
const webhooks = useWebhooks({ redis });
const postern = usePostern();

const ENDPOINTS = [{ path: "/a", job_id: 1, auth: "none", idempotency_header: "X-Id" }];
const post = (address: string, id: string) =>
  send(address, { path: "/a", headers: { "X-Id": id }, body: "x" });
const readyz = (address: string) => send(address, { method: "GET", path: "/readyz" });

const HERE = ["--bind-address", "127.0.0.1:0"];
const OPS = ["--ops-address", "127.0.0.1:0"];
const PROCESSES: Readonly<Record<string, readonly string[]>> = {
  webhooks: ["webhooks", "--service-id", "7", ...HERE, ...OPS],
  producer: ["producer", ...OPS],
  runner: ["runner", ...HERE, ...OPS],
  x402: ["x402", ...HERE, ...OPS],
  pricing: ["pricing", ...HERE, ...OPS],
  operator: ["operator", ...HERE, ...OPS],
};

/** The configuration of a job that is for sale. The addresses of its chain and its facilitator are not reachable. */
function soldJob() {
  const url = "http://127.0.0.1:9";
  const asset = `0x${"5".repeat(40)}` as const;
  const devnet = {
    rpcUrl: url,
    facilitatorUrl: url,
    token: asset,
    seller: asset,
    network: "eip155:1",
  } as const;
  const keyFile = join(tempDir(), "pricing.key");
  writeFileSync(keyFile, KEY);
  const domain = { chain_id: DOMAIN.chainId, verifying_contract: DOMAIN.verifyingContract };
  return {
    x402: x402Table({ devnet }),
    pricing: { key: `file:${keyFile}`, http_address: false, domain },
    job_pricing: { "1": { "1": "1000000000000000" } },
  };
}

/** Starts each kind of process, and expects that it ends and logs one line with this code and this remedy. */
async function expectAllToEnd(redisUrl: string, code: string, remedy: RegExp): Promise<void> {
  postern.configure({
    postern: { redis: { url: redisUrl }, drain_secs: 0 },
    webhooks: { endpoints: ENDPOINTS },
    ...soldJob(),
  });
  await Promise.all(
    sample(Object.entries(PROCESSES)).map(async ([name, args]) => {
      const process = postern.start(args);
      const exit = await beforeDeadline(`${name} ends`, process.exit).catch((late: Error) => {
        throw new Error(`${late.message}\n${process.tail()}`);
      });
      const failed = process.events("service.failed");
      expect([name, exit.code, failed.length]).toEqual([name, 1, 1]);
      expect([name, failed[0]?.["code"], failed[0]?.["stack"]]).toEqual([name, code, undefined]);
      expect(failed[0]?.["reason"]).toMatch(remedy);
    }),
  );
}

const REFUSALS = [
  ["a wrong password", "redis://app:wrong@HOST", "start.redis_denied", /\[redis\] url/],
  ["a user without a right", "redis://app:right@HOST", "start.redis_denied", /postern redis-acl/],
  ["a database that is not there", "redis://HOST/9", "start.redis_denied", /an existing database/],
  ["a replica", "redis://REPLICA", "start.redis_not_durable", /to the primary/],
] as const;

test.each(sample(REFUSALS))(
  "every process ends at %s with one line that has a code and a remedy, and no stack",
  async (_, url, code, remedy) => {
    await redis.client.call("ACL", "SETUSER", "app", "on", ">right", "~*", "&*", "+@all", "-info");
    const replica = await startRedis({
      env: process.env,
      dir: tempDir(),
      args: ["--replicaof", "127.0.0.1", String(redis.server.port)],
    });
    const redisUrl = url
      .replace("HOST", `127.0.0.1:${redis.server.port}`)
      .replace("REPLICA", `127.0.0.1:${replica.port}`);
    try {
      await expectAllToEnd(redisUrl, code, remedy);
    } finally {
      await replica.stop();
      await redis.client.call("ACL", "DELUSER", "app");
    }
  },
);

/**
 * The right, the commands that need it, and the code of the gateway's answer without it. The second code says that the
 * outcome is unknown: no check needs that right, so the error comes from the script itself, which may have written before.
 */
const RIGHTS = [
  ["to run scripts", ["evalsha", "eval"], "queue.denied"],
  ["that a script needs", ["lpush"], "queue.outcome_unknown"],
] as const;

test.each(sample(RIGHTS))(
  "a right %s that is removed makes a gateway not ready, and calls are answered at once",
  async (_, commands, code) => {
    const user = ["ACL", "SETUSER", "app", "on", "nopass", ...aclRules("webhooks").split(" "), "+config|get"];
    await redis.client.call(...(user as [string, ...string[]]));
    const redisUrl = redis.url.replace("redis://", "redis://app:any@");
    const { address, log } = await webhooks.start({
      endpoints: ENDPOINTS,
      redisUrl,
      enqueueTimeoutMs: 60_000,
    });
    expect((await post(address, "1")).status).toBe(202);
    await redis.client.call("ACL", "SETUSER", "app", ...commands.map((command) => `-${command}`));
    const began = performance.now();
    expect((await post(address, "2")).json()).toMatchObject({ status: 503, code });
    expect(performance.now() - began).toBeLessThan(30_000);
    const refused = await eventually("it is not ready", async () => {
      const answer = await readyz(address);
      return answer.status === 503 ? answer.text : undefined;
    });
    expect(refused).toMatch(/queue\.denied.*postern redis-acl/);
    expect(log.events.filter(({ event }) => event === "redis.unusable")).toHaveLength(1);
    await redis.client.call("ACL", "SETUSER", "app", ...commands.map((command) => `+${command}`));
    await eventually("calls are taken again", async () => (await post(address, "3")).status === 202);
    await redis.client.call("ACL", "DELUSER", "app");
  },
);

const FULL = [
  [
    "memory (OOM)",
    /^OOM/,
    () => redis.client.config("SET", "maxmemory", "1"),
    () => redis.client.config("SET", "maxmemory", "0"),
  ],
  [
    "disk for a snapshot (MISCONF)",
    /^MISCONF/,
    async () => {
      mkdirSync(join(redis.server.dir, "dump.rdb", "in the way"), { recursive: true });
      await redis.client.config("SET", "save", "3600 1");
      await redis.client.bgsave();
      await eventually("the snapshot has failed", async () =>
        (await redis.client.info("persistence")).includes("rdb_last_bgsave_status:err"),
      );
    },
    async () => {
      rmSync(join(redis.server.dir, "dump.rdb"), { recursive: true, force: true });
      await redis.client.config("SET", "save", "");
    },
  ],
] as const;

test.each(FULL)(
  "while Redis has no %s new calls are refused at once and reported, repeats are answered, and the gateway stays ready",
  async (_, said, fill, empty) => {
    const gateway = await webhooks.start({
      endpoints: ENDPOINTS,
      enqueueTimeoutMs: 60_000,
      limits: { redis_memory_ratio_max: Number.POSITIVE_INFINITY },
    });
    const { address, log } = gateway;
    expect((await post(address, "known")).status).toBe(202);
    await fill();
    try {
      const began = performance.now();
      expect((await post(address, "new")).json()).toMatchObject({ status: 503, code: "queue.unavailable" });
      expect(performance.now() - began).toBeLessThan(30_000);
      expect((await post(address, "known")).status).toBe(202);
      const ready = await readyz(address);
      expect([ready.status, ready.json()]).toEqual([
        200,
        expect.objectContaining({ writes: expect.stringMatching(said) }),
      ]);
      expect(log.events.filter(({ event }) => event === "redis.full")).toHaveLength(1);
    } finally {
      await empty();
    }
    await eventually("new calls are taken", async () => (await post(address, "later")).status === 202);
  },
);

const [busPort, otherBusPort] = [String(await freePort()), String(await freePort())];

onlyInLongRun(() => {
  const node = (port: string) => useOwnRedis(["--cluster-enabled", "yes", "--cluster-port", port]);
  const [cluster, otherNode] = [node(busPort), node(otherBusPort)];
  const producers = useProducer({ redis: cluster });

  test("while a cluster is down a gateway and a producer wait for it, and each says so in one line and in its readiness", async () => {
    const gateway = await webhooks.start({ endpoints: ENDPOINTS, redisUrl: cluster.url, early: true });
    const { producer, log } = producers.start();
    const sayings = [gateway.log, log].map(
      ({ events }) =>
        () =>
          events.filter(({ event }) => event === "redis.unavailable"),
    );
    for (const said of sayings) await eventually("it says so", () => said().length === 1);
    expect((await readyz(gateway.address)).text).toMatch(/CLUSTERDOWN/);
    expect((await post(gateway.address, "1")).json()).toMatchObject({
      status: 503,
      code: "queue.unavailable",
    });
    expect(producer.readiness().checks["redis"]).toMatch(/CLUSTERDOWN/);
    await cluster.client.call("CLUSTER", "ADDSLOTSRANGE", "0", "16383");
    await producer.firstCheck;
    await eventually("calls are taken", async () => (await post(gateway.address, "1")).status === 202);
    for (const said of sayings) expect(said()).toHaveLength(1);
  });

  test("every process ends at a cluster node without the keys, with a reference to the node that has them", async () => {
    await otherNode.client.call("CLUSTER", "MEET", "127.0.0.1", String(cluster.server.port), busPort);
    await eventually("it knows who has the keys", async () =>
      otherNode.client.get("any").then(
        () => false,
        (error: Error) => error.message.startsWith("MOVED"),
      ),
    );
    await expectAllToEnd(otherNode.url, "start.redis_denied", /set \[redis\] nodes instead of url/);
  });
});
