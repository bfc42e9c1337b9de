import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { PaymentRequired } from "@x402/core/types";
import type { Part } from "../../shared/dev/process.ts";
import type { PrivateRedis } from "../../shared/dev/redis.ts";
import { type Comparison, compareByTurns, comparisonTable, TURNS } from "../support/compare.ts";
import { type Count, type Counts, countAgain, countNothing, totalOf } from "../support/counts.ts";
import { send, sendAny } from "../support/load.ts";
import { inPaidWorld, type PaidWorld } from "../support/paid-world.ts";
import { fetchOffer, isSameSale, type Signed, signMany, toHeader } from "../support/payments.ts";
import { openProbe } from "../support/redis-probe.ts";
import { COLUMNS, type Size, type Round as TimedRound, timed } from "../support/round.ts";
import { JOB_PATH } from "../support/sale.ts";
import type { Setup } from "../support/setup.ts";
import { withBothSides } from "../support/sides.ts";
import { table } from "../support/table.ts";
import { type LocalCheck, measureLocalCheck } from "./local-check.ts";

/**
 * Figures of a round. For each paid request, `verifies` and `settles` count the requests to the facilitator, and `scripts`
 * the scripts that Redis runs.
 */
type Round = TimedRound & { verifies: number; settles: number; scripts: number };

/**
 * Figures of the gateway with a simulated node of the chain that answers after 80 ms. The node returns the receipt of a
 * transaction only a block (one second) after the transaction.
 */
type Far = { perSecond: number; p50Ms: number; p99Ms: number; unknownShare: number };

export type PaidFigures = Comparison<Round> & Counts & { localCheck: LocalCheck; far: Far };

type Seller = { world: PaidWorld; server: Part; address: string; required: PaymentRequired; count: Count };

/**
 * Measures how many paid requests per second the payment gateway and its baseline answer, in alternate turns. The baseline
 * is a server with the official x402 middleware.
 */
export function measurePaid(setup: Setup): Promise<PaidFigures> {
  const { quick, rounds } = setup;
  const size = quick ? { warmUp: 100, calls: 300 } : { warmUp: 200, calls: 800 };
  const each = size.warmUp + size.calls;
  const starts = {
    program: async (world: PaidWorld) => toSeller(world, await world.startX402(), countAgain),
    baseline: async (world: PaidWorld) => toSeller(world, await world.startBaselinePaid(), countNothing),
  };
  return withBothSides(inPaidWorld, setup, starts, async ({ ours, baseline }) => {
    if (!isSameSale(ours.required, baseline.required)) throw new Error("the two sides sell different things");
    const signed = await signMany(ours.required, rounds * TURNS * each);
    const signedFar = await signMany(ours.required, FAR.warmUp + FAR.calls);
    const turns = (seller: Seller) => {
      const unused = [...signed];
      return (): Promise<Round> => oneTurn(seller, size, unused.splice(0, each));
    };
    const compared = await compareByTurns(rounds, { ours: turns(ours), baseline: turns(baseline) });
    const far = await measureFar(ours, signedFar);
    const counts = [
      await countOf(ours, signed.length + signedFar.length),
      await countOf(baseline, signed.length),
    ];
    const localCheck = measureLocalCheck(ours.required, signed.slice(0, 5000));
    return { ...compared, ...totalOf(counts), localCheck, far };
  });
}

async function toSeller(world: PaidWorld, server: Part, count: Count): Promise<Seller> {
  const { address } = server;
  return { world, server, address, required: await fetchOffer(address, JOB_PATH), count };
}

async function countOf({ world, server, count }: Seller, accepted: number): Promise<Counts> {
  await server.kill();
  return count(world, accepted);
}

/** Measures one turn. Throws if a payment is not accepted, or if the facilitator did not verify and settle it exactly once. */
async function oneTurn(
  { world, server, address, required }: Seller,
  size: Size,
  signed: readonly Signed[],
): Promise<Round> {
  const { redis, facilitator } = world;
  const headersFile = writeHeaders(world, required, signed);
  await facilitator.reset();
  const before = await scriptsOf(redis);
  const wanted = { address, paths: [JOB_PATH], status: 202, headersFile, ...size };
  const figures = await timed({ redis, server, size }, () => send(wanted));
  const scripts = ((await scriptsOf(redis)) - before) / signed.length;
  const { payments, verifies, settles, uneven } = await facilitator.count();
  if (payments !== signed.length || uneven > 0) {
    const counted = `${verifies} verifies and ${settles} settles of ${payments} payments`;
    throw new Error(`not one verify and one settle for each of ${signed.length} paid requests: ${counted}`);
  }
  return { ...figures, verifies: verifies / payments, settles: settles / payments, scripts };
}

async function scriptsOf({ url }: PrivateRedis): Promise<number> {
  const probe = await openProbe(url);
  return probe.scripts().finally(() => probe.close());
}

const FAR = { warmUp: 256, calls: 1024, connections: 128 };

/**
 * Measures the gateway with a node whose answers take as long as those of a distant one. If the gateway does not see the payment on the chain in time, it answers 503.
 * Such a request is still paid, and the gateway queues its call later.
 */
async function measureFar({ world, address, required }: Seller, signed: readonly Signed[]): Promise<Far> {
  await world.facilitator.goFar();
  const headersFile = writeHeaders(world, required, signed);
  const { perSecond, p50Ms, p99Ms, refused } = await sendAny({
    ...{ address, paths: [JOB_PATH], status: 202, headersFile },
    ...FAR,
  });
  const { "503": unknown = 0, ...others } = refused;
  if (Object.keys(others).length > 0) throw new Error(`payments were refused: ${JSON.stringify(refused)}`);
  return { perSecond, p50Ms, p99Ms, unknownShare: unknown / signed.length };
}

/** Writes the file from which the sender reads its payment headers, one for each request, and returns the file's path. */
function writeHeaders({ dir }: PaidWorld, required: PaymentRequired, signed: readonly Signed[]): string {
  const headersFile = join(dir, "payments");
  const lines = signed.map((each) => `PAYMENT-SIGNATURE: ${toHeader(required, each)}`);
  writeFileSync(headersFile, lines.join("\n"));
  return headersFile;
}

export function paidTable(figures: PaidFigures): string {
  const compared = comparisonTable(figures, {
    what: "paid requests",
    name: "gateway",
    columns: [
      ["paid/s", "perSecond"],
      ...COLUMNS,
      ["of Redis", "redisUs"],
      ["verifies", "verifies"],
      ["settles", "settles"],
      ["scripts", "scripts"],
    ],
  });
  const { decodeUs, identifyUs, agreeUs } = figures.localCheck;
  const checks = table(
    ["local check of a payment", "µs"],
    [
      ["its header decoded", decodeUs],
      ["its signer recovered", identifyUs],
      ["its terms compared with the offer", agreeUs],
    ],
  );
  const { far } = figures;
  const distant = table(
    ["node 80 ms away, receipts a block late", "paid/s", "p50 ms", "p99 ms", "503, %"],
    [["gateway, 128 connections", far.perSecond, far.p50Ms, far.p99Ms, far.unknownShare * 100]],
  );
  return `${compared}\n\n${distant}\n\n${checks}`;
}
