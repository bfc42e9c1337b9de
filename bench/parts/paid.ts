import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { PaymentRequired } from "@x402/core/types";
import type { Part } from "../../shared/dev/process.ts";
import { type Comparison, compareByTurns, comparisonTable, TURNS } from "../support/compare.ts";
import type { Counts } from "../support/counts.ts";
import { send } from "../support/load.ts";
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

export type PaidFigures = Comparison<Round> & Counts & { localCheck: LocalCheck };

type Seller = { server: Part; address: string; required: PaymentRequired };

/** Paid requests answered per second: the gateway and the official middleware by turns, with the same facilitator. */
export function measurePaid({ quick, nodeArgs }: Setup): Promise<PaidFigures> {
  const size = quick ? { warmUp: 100, calls: 300 } : { warmUp: 200, calls: 800 };
  const rounds = quick ? 3 : 7;
  return inPaidWorld(nodeArgs, async (world) => {
    const gateway = await toSeller(await world.startX402());
    const middleware = await toSeller(await world.startBaselinePaid());
    if (!isSameSale(gateway.required, middleware.required))
      throw new Error("the two sides sell different things");
    const each = size.warmUp + size.calls;
    const signed = await signMany(gateway.required, rounds * TURNS * each);
    const probe = await openProbe(world.redis.url);
    const turns = (seller: Seller) => {
      const unused = [...signed];
      return (): Promise<Round> => oneTurn(world, seller, { size, signed: unused.splice(0, each), probe });
    };
    const compared = await compareByTurns(rounds, { ours: turns(gateway), baseline: turns(middleware) });
    probe.close();
    await gateway.server.kill();
    const counts = await countAgain(world, signed.length);
    const localCheck = measureLocalCheck(gateway.required, signed.slice(0, 5000));
    return { ...compared, ...counts, localCheck };
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
  const headersFile = join(world.dir, "payments");
  writeFileSync(
    headersFile,
    signed.map((each) => `PAYMENT-SIGNATURE: ${toHeader(required, each)}`).join("\n"),
  );
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
  return `${compared}\n\n${checks}`;
}
