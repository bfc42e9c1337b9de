import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { createDeliverResult } from "../../shared/calls/deliver-result.ts";
import { writeConfig } from "../../shared/config/config-tables.ts";
import { sha256Hex } from "../../shared/crypto/compare.ts";
import type { Part } from "../../shared/dev/process.ts";
import { untilReady } from "../../shared/dev/stack.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { callIdFrom } from "../../shared/job-call/call-id.ts";
import { partitionOf } from "../../shared/redis/partition.ts";
import { delay } from "../../shared/time/clock.ts";
import { Connection, createPost } from "../processes/connection.ts";
import { compiled } from "../support/build.ts";
import type { Counts } from "../support/counts.ts";
import { measureFsync } from "../support/disk.ts";
import { rssBytesOf } from "../support/proc.ts";
import { openProbe } from "../support/redis-probe.ts";
import type { Setup } from "../support/setup.ts";
import { quantile } from "../support/statistics.ts";
import { table } from "../support/table.ts";
import { ID_HEADER, onGround, posternTable, startGateway } from "../support/world.ts";

const PATH = "/hooks/waiting";
const BODY_BYTES = [300, 16_384];
const WARM_UP = 200;
const ENDS_PER_SECOND = 500;
/** What the runner answers. */
const RESULT = Buffer.alloc(300, "r");

type OfBody = {
  bodyBytes: number;
  waiters: number;
  /** What a client that waits takes, with its connection; and of that, what the collector leaves. */
  rssPerClient: number;
  keptPerClient: number;
  /** What is left of a connection that has brought nothing yet. */
  keptPerConnection: number;
  /** From the write that ends a call to the answer at its client, at 500 ends a second. The write takes an fsync of it. */
  endToAnswerP50Ms: number;
  endToAnswerP99Ms: number;
  fsyncP50Ms: number;
  /** From SIGTERM until the last of the others has its 202. */
  stopped: number;
  stopMs: number;
};

export type WaitingFigures = Counts & { byBody: OfBody[] };

/** Clients that wait for the results of their calls at one gateway: what each takes, and how soon it has its answer. */
export async function measureWaiting(setup: Setup): Promise<WaitingFigures> {
  const waiters = setup.quick ? 1000 : 10_000;
  const byBody = [];
  for (const bodyBytes of BODY_BYTES) byBody.push(await withBodies(setup, bodyBytes, waiters));
  const accepted = byBody.length * (waiters + WARM_UP);
  return { byBody, accepted, counted: accepted, duplicates: 0 };
}

function withBodies({ nodeArgs }: Setup, bodyBytes: number, waiters: number): Promise<OfBody> {
  const heap = ["--import", compiled("bench/processes/heap.ts")];
  return onGround([...nodeArgs, ...heap], async ({ dir, configDir, stack, startRedis }) => {
    const redis = await startRedis(["--auto-aof-rewrite-percentage", "0"]);
    writeConfig(configDir, configOf(redis.url, waiters));
    const gateway = await startGateway(stack);
    await untilReady(gateway);
    const footprint = await footprintOf(gateway);
    const probe = await openProbe(redis.url);
    const clients = createClients(gateway, createDeliverResult(partitionOf(probe.redis)), bodyBytes);

    await clients.begin(WARM_UP);
    await clients.endEach(WARM_UP);

    const before = await footprint();
    const idle = await openIdle(gateway.address);
    const { kept } = await footprint();
    for (const socket of idle) socket.destroy();
    await clients.begin(waiters);
    const waiting = await footprint();
    const disk = await measureFsync(dir);
    const took = await clients.endEach(waiters / 2);
    const stopMs = await clients.stop();
    probe.close();

    return {
      ...{ bodyBytes, waiters, stopMs, stopped: waiters / 2, fsyncP50Ms: disk.p50Ms },
      rssPerClient: (waiting.rss - before.rss) / waiters,
      keptPerClient: (waiting.kept - before.kept) / waiters,
      keptPerConnection: (kept - before.kept) / idle.length,
      endToAnswerP50Ms: quantile(took, 0.5),
      endToAnswerP99Ms: quantile(took, 0.99),
    };
  });
}

function configOf(redisUrl: string, waiters: number) {
  const { results, ...rest } = posternTable(redisUrl, "http://127.0.0.1:1");
  const endpoint = { path: PATH, job_id: 1, auth: "none", idempotency_header: ID_HEADER };
  return {
    postern: {
      ...rest,
      results: { ...results, wait_secs_max: 3600, waiters_max: waiters },
      http: { connections: 2 * waiters + 1000 },
    },
    webhooks: { endpoints: [{ ...endpoint, respond: "result", wait_secs: 3600 }] },
  };
}

/** Once the process has settled: what it holds, and what of it the collector leaves. */
async function footprintOf({ process }: Part) {
  const { url } = await process.waitForEvent("bench.heap");
  return async (): Promise<{ rss: number; kept: number }> => {
    let kept = Number.NaN;
    for (let i = 0; i < 3; i++) {
      await delay(500);
      kept = Number(await (await fetch(String(url))).text());
    }
    return { kept, rss: rssBytesOf(process.pid) };
  };
}

type Client = { id: string; connection: Connection };

/** Fewer than a gateway lets be idle for so long as that takes. */
const IDLE = 1000;

async function openIdle(address: string): Promise<Socket[]> {
  const [host, port] = address.split(":");
  const sockets = Array.from({ length: IDLE }, () => connect({ host, port: Number(port) }));
  await Promise.all(sockets.map((socket) => once(socket, "connect")));
  return sockets;
}

/** Clients with a connection each. A result that its client does not get, and an answer of another kind, is thrown. */
function createClients(gateway: Part, deliver: ReturnType<typeof createDeliverResult>, bodyBytes: number) {
  const body = "b".repeat(bodyBytes);
  const sha256 = sha256Hex(Buffer.from(body));
  const post = createPost({ address: gateway.address, body, headers: [] });
  const waiting: Client[] = [];
  const answers = new Map<string, (status: number) => void>();
  const statuses: number[] = [];
  let made = 0;

  function open(): Client {
    const delivery = `delivery-${made++}`;
    const id = callIdFrom(PATH, delivery, sha256);
    let request: Buffer | undefined = post(PATH, [`${ID_HEADER}: ${delivery}`]);
    const connection = new Connection(gateway.address, {
      next() {
        const next = request;
        request = undefined;
        return next;
      },
      answered(status) {
        statuses.push(status);
        answers.get(id)?.(status);
      },
      lost: () => answers.get(id)?.(0),
    });
    connection.send();
    return { id, connection };
  }

  const count = async (name: string) => {
    const metrics = await (await fetch(`http://${gateway.opsAddress}/metrics`)).text();
    return Number(new RegExp(`^${name} (\\d+)`, "m").exec(metrics)?.[1]);
  };
  const untilCount = (name: string, wanted: number) =>
    eventually(`${name} is ${wanted}`, async () => (await count(name)) >= wanted);

  /** Ends one call, and resolves with how long its client has waited since. */
  async function end({ id, connection }: Client): Promise<number> {
    const began = performance.now();
    const answered = new Promise<number>((resolve) => answers.set(id, resolve));
    const at = Date.now();
    const told = { kind: "answer", status: 200, contentType: "text/plain", by: "delivery" } as const;
    const [status] = await Promise.all([answered, deliver(id, { ...told, at, body: RESULT })]);
    answers.delete(id);
    connection.end();
    if (status !== 200) throw new Error(`a client that waited was answered ${status}`);
    return performance.now() - began;
  }

  return {
    /** Resolves once so many more wait. */
    async begin(clients: number): Promise<void> {
      for (let i = 0; i < clients; i++) {
        waiting.push(open());
        if (waiting.length % 100 === 0) await untilCount("postern_waiting_clients", waiting.length);
      }
      await untilCount("postern_waiting_clients", waiting.length);
    },

    /** Ends so many at an even pace. */
    async endEach(clients: number): Promise<number[]> {
      const began = performance.now();
      const ended: Promise<number>[] = [];
      while (ended.length < clients) {
        const due = Math.min(clients, ((performance.now() - began) * ENDS_PER_SECOND) / 1000);
        for (const client of waiting.splice(0, Math.ceil(due - ended.length))) ended.push(end(client));
        await delay(1);
      }
      return Promise.all(ended);
    },

    /** Tells the gateway to stop, and resolves with how long it takes until all are answered. */
    async stop(): Promise<number> {
      const before = statuses.length;
      const began = performance.now();
      const exit = gateway.kill("SIGTERM");
      await eventually("all are answered", () => statuses.length - before === waiting.length);
      const took = performance.now() - began;
      const odd = statuses.slice(before).filter((status) => status !== 202);
      if (odd.length > 0) throw new Error(`clients of a gateway that stops were answered ${odd[0]}`);
      await exit;
      return took;
    },
  };
}

export function waitingTable({ byBody }: WaitingFigures): string {
  const memory = table(
    ["KiB, with a body of", "waiters", "RSS/client", "kept/client", "kept/idle connection"],
    byBody.map(({ bodyBytes, waiters, rssPerClient, keptPerClient, keptPerConnection }) => [
      ...[`${bodyBytes.toLocaleString("en")} bytes`, waiters],
      ...[rssPerClient, keptPerClient, keptPerConnection].map((bytes) => bytes / 1024),
    ]),
  );
  const time = table(
    ["ms, with a body of", "end to answer p50", "p99", "fsync p50", "SIGTERM to last 202"],
    byBody.map(({ bodyBytes, endToAnswerP50Ms, endToAnswerP99Ms, fsyncP50Ms, stopMs }) => [
      ...[`${bodyBytes.toLocaleString("en")} bytes`, endToAnswerP50Ms, endToAnswerP99Ms, fsyncP50Ms, stopMs],
    ]),
  );
  return `${memory}\n\n${time}`;
}
