import { request } from "node:http";
import type { Part } from "../../shared/dev/process.ts";
import { type Comparison, compareByTurns, comparisonTable } from "../support/compare.ts";
import { send } from "../support/load.ts";
import { inPaidWorld, type PaidWorld } from "../support/paid-world.ts";
import { COLUMNS, type Round, timed } from "../support/round.ts";
import { JOB_PATH } from "../support/sale.ts";
import type { Setup } from "../support/setup.ts";
import { withBothSides } from "../support/sides.ts";

export type ChallengeFigures = Comparison<Round> & {
  /** Size of one answer, without its status line. */
  bytes: Readonly<Record<"ours" | "baseline", number>>;
};

type Side = { server: Part; turn(): Promise<Round>; bytes: number };

/**
 * Measures how many 402 answers per second the payment gateway sends, and how many its baseline sends, in alternate rounds.
 * The baseline is a server that fetches one answer of the gateway and sends the same bytes for every request.
 */
export function measureChallenge(setup: Setup): Promise<ChallengeFigures> {
  const { quick, rounds } = setup;
  const size = quick ? { warmUp: 500, calls: 1500 } : { warmUp: 800, calls: 4800 };
  const toSide = async ({ redis }: PaidWorld, server: Part): Promise<Side> => {
    const wanted = { address: server.address, paths: [JOB_PATH], status: 402, ...size };
    const turn = () => timed({ redis, server, size }, () => send(wanted));
    return { server, turn, bytes: await bytesOf(server.address) };
  };
  const starts = {
    program: async (world: PaidWorld) => toSide(world, await world.startX402()),
    async baseline(world: PaidWorld, { server, bytes: wanted }: Side) {
      const bare = await toSide(world, await world.startBaselineChallenge(server.address));
      if (bare.bytes === wanted) return bare;
      throw new Error(`the baseline sends ${bare.bytes} bytes where the gateway sends ${wanted}`);
    },
  };
  return withBothSides(inPaidWorld, setup, starts, async ({ ours, baseline }) => {
    const compared = await compareByTurns(rounds, { ours: ours.turn, baseline: baseline.turn });
    return { ...compared, bytes: { ours: ours.bytes, baseline: baseline.bytes } };
  });
}

/** Requests the job once, and returns the size of the answer's headers and body in bytes. */
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
  return `${table}\n\n  each 402 is ${figures.bytes.ours} bytes, the baseline's ${figures.bytes.baseline}`;
}
