import { request } from "node:http";
import type { Part } from "../../shared/dev/process.ts";
import { type Comparison, compareByTurns, comparisonTable } from "../support/compare.ts";
import { send } from "../support/load.ts";
import { inPaidWorld, type PaidWorld } from "../support/paid-world.ts";
import { COLUMNS, type Round, type Size, timed } from "../support/round.ts";
import { JOB_PATH } from "../support/sale.ts";
import type { Setup } from "../support/setup.ts";

export type ChallengeFigures = Comparison<Round> & {
  /** Of one answer, without its status line. */
  bytes: number;
};

/** Unpaid requests answered with 402 per second: the gateway and a server that replays its bytes, by turns. */
export function measureChallenge({ quick, nodeArgs }: Setup): Promise<ChallengeFigures> {
  const size = quick ? { warmUp: 500, calls: 1500 } : { warmUp: 800, calls: 4800 };
  const rounds = quick ? 3 : 7;
  return inPaidWorld(nodeArgs, async (world) => {
    const gateway = await world.startX402();
    const bare = await world.startBaselineChallenge(gateway.address);
    const bytes = await sameBytes(gateway, bare);
    const compared = await compareByTurns(rounds, {
      ours: () => oneTurn(world, gateway, size),
      baseline: () => oneTurn(world, bare, size),
    });
    return { ...compared, bytes };
  });
}

/** Throws when an answer is not 402. */
function oneTurn({ redis }: PaidWorld, server: Part, size: Size): Promise<Round> {
  const wanted = { address: server.address, paths: [JOB_PATH], status: 402, ...size };
  return timed({ redis, server, size }, () => send(wanted));
}

async function sameBytes(one: Part, other: Part): Promise<number> {
  const [ours, theirs] = [await bytesOf(one.address), await bytesOf(other.address)];
  if (ours !== theirs) throw new Error(`the baseline sends ${theirs} bytes where the gateway sends ${ours}`);
  return ours;
}

/** Of the headers as they came, and the body. */
function bytesOf(address: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const asked = request(`http://${address}${JOB_PATH}`, { method: "POST" }, (res) => {
      let bytes = res.rawHeaders.reduce((sum, text) => sum + text.length + 2, 2);
      res.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
      });
      res.on("end", () => resolve(bytes));
    });
    asked.on("error", reject);
    asked.end();
  });
}

export function challengeTable(figures: ChallengeFigures): string {
  const table = comparisonTable(figures, {
    what: "unpaid requests",
    name: "gateway",
    columns: [["402s/s", "perSecond"], ...COLUMNS],
  });
  return `${table}\n\n  each 402 is ${figures.bytes} bytes`;
}
