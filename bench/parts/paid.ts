import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { PaymentRequired } from "@x402/core/types";
import type { Part } from "../../shared/dev/process.ts";
import { type Comparison, compareByTurns, comparisonTable, TURNS } from "../support/compare.ts";
import type { Counts } from "../support/counts.ts";
import { send, sendAny } from "../support/load.ts";
import { inPaidWorld, type PaidWorld } from "../support/paid-world.ts";
import { ask, isSameSale, type Signed, signMany, toHeader } from "../support/payments.ts";
import { openProbe, type Probe } from "../support/redis-probe.ts";
import { COLUMNS, type Size, type Round as TimedRound, timed } from "../support/round.ts";
import { JOB_PATH } from "../support/sale.ts";
import type { Setup } from "../support/setup.ts";
import { table } from "../support/table.ts";
import { type LocalCheck, measureLocalCheck } from "./local-check.ts";

/** Requests to the facilitator, and scripts that Redis runs, for each paid request. */
type Round = TimedRound & { verifies: number; settles: number; scripts: number };

/** With a node that is 80 ms away, and whose receipts are a block of a second late. */
type Far = { perSecond: number; p50Ms: number; p99Ms: number; unknownShare: number };

export type PaidFigures = Comparison<Round> & Counts & { localCheck: LocalCheck; far: Far };

type Seller = { server: Part; address: string; required: PaymentRequired };

/** Paid requests answered per second: the gateway and the official middleware, or another build's gateway, by turns, with the same facilitator. */
export function measurePaid({ quick, nodeArgs, against }: Setup): Promise<PaidFigures> {
  const size = quick ? { warmUp: 100, calls: 300 } : { warmUp: 200, calls: 800 };
  const rounds = quick ? 3 : 7;
  return inPaidWorld(nodeArgs, async (world) => {
    const gateway = await toSeller(await world.startX402());
    const startOther = against === undefined ? world.startBaselinePaid : () => world.startX402(against);
    const middleware = await toSeller(await startOther());
    if (!isSameSale(gateway.required, middleware.required))
      throw new Error("the two sides sell different things");
    const each = size.warmUp + size.calls;
    const signed = await signMany(gateway.required, rounds * TURNS * each);
    // Another build's gateway knows the payments of this one.
    const signedOther =
      against === undefined ? signed : await signMany(gateway.required, rounds * TURNS * each);
    const signedFar = await signMany(gateway.required, FAR.warmUp + FAR.calls);
    const probe = await openProbe(world.redis.url);
    const turns = (seller: Seller, payments: readonly Signed[]) => {
      const unused = [...payments];
      return (): Promise<Round> => oneTurn(world, seller, { size, signed: unused.splice(0, each), probe });
    };
    const compared = await compareByTurns(rounds, {
      ours: turns(gateway, signed),
      baseline: turns(middleware, signedOther),
    });
    probe.close();
    const far = await measureFar(world, gateway, signedFar);
    await gateway.server.kill();
    const sold = signed.length + (against === undefined ? 0 : signedOther.length);
    const counts = await countAgain(world, sold + signedFar.length);
    const localCheck = measureLocalCheck(gateway.required, signed.slice(0, 5000));
    return { ...compared, ...counts, localCheck, far };
  });
}

async function toSeller(server: Part): Promise<Seller> {
  const address = server.address;
  return { server, address, required: await ask(address, JOB_PATH) };
}

type Paying = { size: Size; signed: readonly Signed[]; probe: Probe };

/** Throws when a payment is not accepted, or when the facilitator was not asked once to verify and once to settle it. */
async function oneTurn(
  world: PaidWorld,
  { server, address, required }: Seller,
  { size, signed, probe }: Paying,
): Promise<Round> {
  const headersFile = writeHeaders(world, required, signed);
  await world.facilitator.reset();
  const before = await probe.scripts();
  const wanted = { address, paths: [JOB_PATH], status: 202, headersFile, ...size };
  const figures = await timed({ redis: world.redis, server, size }, () => send(wanted));
  const scripts = ((await probe.scripts()) - before) / signed.length;
  const { payments, verifies, settles, uneven } = await world.facilitator.count();
  if (payments !== signed.length || uneven > 0) {
    const counted = `${verifies} verifies and ${settles} settles of ${payments} payments`;
    throw new Error(`not one verify and one settle for each of ${signed.length} paid requests: ${counted}`);
  }
  return { ...figures, verifies: verifies / payments, settles: settles / payments, scripts };
}

const FAR = { warmUp: 256, calls: 1024, connections: 128 };

/** What is answered with 503 is paid all the same, and its call is queued later. */
async function measureFar(
  world: PaidWorld,
  { address, required }: Seller,
  signed: readonly Signed[],
): Promise<Far> {
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

/** A file with a payment's header for each request. */
function writeHeaders({ dir }: PaidWorld, required: PaymentRequired, signed: readonly Signed[]): string {
  const headersFile = join(dir, "payments");
  const lines = signed.map((each) => `PAYMENT-SIGNATURE: ${toHeader(required, each)}`);
  writeFileSync(headersFile, lines.join("\n"));
  return headersFile;
}

/** Everything paid for is injected now, and counted where it arrives. */
async function countAgain({ sink, startProducer }: PaidWorld, accepted: number): Promise<Counts> {
  const producer = await startProducer();
  const { calls: counted, duplicates } = await sink.arrived(accepted);
  await producer.kill();
  return { accepted, counted, duplicates };
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
