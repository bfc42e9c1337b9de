import { beforeAll, expect, test } from "vitest";
import type { Part } from "../../../shared/dev/process.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import type { ProcessKind } from "../../../shared/telemetry/processes/process.ts";
import { useDevnet } from "../../fixtures/devnet.ts";
import { useFakeRunner } from "../../fixtures/fake-runner.ts";
import { jsonLines, usePostern } from "../../fixtures/postern.ts";
import { loginOf } from "../../fixtures/redis.ts";
import { useSentinels } from "../../fixtures/redis-topology.ts";
import { x402Table } from "../../fixtures/x402.ts";
import { SAFE } from "../../services/console/refundable.ts";
import { newPayer } from "../../support/devnet.ts";
import { WAYS } from "../../support/failover/ways.ts";
import { createBuyer } from "../fleet/buyer.ts";

const PATH = "/x402/jobs/1/1";
const BUYERS = 8;

const devnet = useDevnet();
const redis = useSentinels();
const runner = useFakeRunner();
const postern = usePostern();

beforeAll(() => configureFor("operator"));

function configureFor(kind: ProcessKind): void {
  const place = { ...redis.place, durability: "replicated", min_replicas: 2 };
  postern.configure({
    postern: {
      drain_secs: 0,
      redis: { ...place, ...loginOf(kind) },
      runner: { url: runner.url, timeout_ms: 2000 },
      producer: { lock_ms: 10_000, backoff: { base_ms: 50, cap_ms: 500 } },
    },
    x402: x402Table({ devnet, token: { refund_from: [SAFE] } }),
    job_pricing: { "1": { "1": "1000000000000000" } },
  });
}

function start(kind: ProcessKind, args: readonly string[] = []) {
  configureFor(kind);
  return postern.start([kind, ...args, "--ops-address", "127.0.0.1:0"]);
}

/** Starts two gateways, and a producer whose runner refuses all calls. Resolves with the gateways. */
async function startSelling(): Promise<Part[]> {
  const processes = [
    ...[1, 2].map(() => start("x402", ["--bind-address", "127.0.0.1:0"])),
    start("producer"),
  ];
  const started = await Promise.all(processes.map((each) => each.waitForEvent("service.started")));
  runner.answer = () => ({ status: 404 });
  return started.slice(0, 2).map(({ address }) => ({ address: String(address) }) as Part);
}

/**
 * Makes each payer buy a call from both gateways until each answers 202. Runs `meanwhile` once a payment is open.
 * Resolves with the call ids.
 */
async function buyWhile(gateways: readonly Part[], meanwhile: () => Promise<void>): Promise<string[]> {
  const buyer = createBuyer({ devnet, path: PATH });
  const payers = await Promise.all(Array.from({ length: BUYERS }, () => newPayer(devnet)));
  const purchases = await Promise.all(
    payers.map((payer) => buyer.sign(gateways[0] as Part, { payer, version: 2, body: "buy" })),
  );
  await devnet.control.clearRequests();
  const bought = Promise.all(purchases.map((purchase) => buyer.buy(gateways, purchase, 2)));
  await eventually("a settle is sent", async () => (await devnet.control.requests()).requests.length > 0);
  await meanwhile();
  await bought;
  const ids = purchases.map(({ callIds }) => [...new Set(callIds)]);
  expect(ids.map(({ length }) => length)).toEqual(payers.map(() => 1));
  const transfers = await devnet.chain.transfers(devnet.seller, devnet.token);
  for (const { address } of payers)
    expect(transfers.filter(({ from }) => from === address.toLowerCase())).toHaveLength(1);
  return ids.flat();
}

const MODES = ["was killed", "stood still", "was exchanged by an operator"] as const;

test.each(MODES)(
  "open payments are made once if the primary %s",
  {
    timeout: 180_000,
  },
  async (way) => {
    const ids = await buyWhile(await startSelling(), () => WAYS[way](redis));
    await eventually("the runner gets them", () => {
      const offered = new Set(runner.offers.map(({ headers }) => headers["idempotency-key"]));
      return ids.every((id) => offered.has(id));
    });
  },
);

test.each(MODES)(
  "each refund is in one export, even if the primary %s meanwhile",
  {
    timeout: 360_000,
  },
  async (way) => {
    const ids = await buyWhile(await startSelling(), async () => {});
    configureFor("operator");
    await eventually("all refunds are due", async () => {
      const listed = jsonLines(await postern.run(["refunds", "list", "-o", "json"]));
      return ids.every((id) => listed.some(({ call_id }) => call_id === id));
    });

    const exported: string[] = [];
    const exportSome = async (): Promise<boolean> => {
      const ran = await postern.run(["refunds", "export", "-o", "json", "--limit", "3"]);
      for (const { rows } of jsonLines(ran))
        exported.push(...(rows as { call_id: string }[]).map(({ call_id }) => call_id));
      if (ran.code !== 0) throw new Error(ran.stderr);
      return ran.stdout === "";
    };
    const failedOver = WAYS[way](redis);
    for (let i = 0; i < 3; i++) await exportSome().catch(() => {});
    await failedOver;
    await eventually("all are exported", exportSome, 180_000);
    expect(new Set(exported).size).toBe(exported.length);
    // An export that was not proven has printed nothing, and its refunds are still pending.
    const pending = jsonLines(
      await postern.run(["payments", "list", "--state", "refund_pending", "-o", "json"]),
    );
    for (const id of ids) expect(pending.map(({ call_id }) => call_id)).toContain(id);
  },
);
