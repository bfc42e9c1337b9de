import { writeConfig } from "../../shared/config/config-tables.ts";
import type { Part } from "../../shared/dev/process.ts";
import { untilSelling } from "../../shared/dev/stack.ts";
import { JOB_PATH, MAX_TIMEOUT_SECS, NETWORK, PAY_TO, PRICE, PRICING, x402Table } from "./sale.ts";
import { inWorld, posternTable, type World, type WorldOptions } from "./world.ts";

export type FacilitatorCounts = {
  payments: number;
  verifies: number;
  settles: number;
  /** Number of payments that were not verified and settled exactly once. */
  uneven: number;
};

/** A world (world.ts) that also has a priced job and a simulated facilitator, which accepts every payment at once. */
export type PaidWorld = World & {
  /**
   * The process of the facilitator, which also simulates the chain's node. After `goFar`, the node answers 80 ms later, and
   * has the receipt of a transaction only a block later.
   */
  facilitator: { count(): Promise<FacilitatorCounts>; reset(): Promise<void>; goFar(): Promise<void> };
  /** Starts the payment gateway, and resolves once it accepts payments. */
  startX402(): Promise<Part>;
  /** Starts a server that replays the 402 of the server at `address`. */
  startBaselineChallenge(address: string): Promise<Part>;
  startBaselinePaid(): Promise<Part>;
};

/** Runs `measure` in a new world, and ends the world in any case. */
export function inPaidWorld<Result>(
  nodeArgs: readonly string[],
  measure: (world: PaidWorld) => Promise<Result>,
  options?: WorldOptions,
): Promise<Result> {
  const measureIn = async (world: World) => {
    const { redis, sink, configDir, stack, start } = world;
    const { address } = await start("facilitator", "bench/processes/facilitator.ts", [NETWORK]);
    const facilitatorUrl = `http://${address}`;
    const postern = posternTable(redis.url, sink.url);
    writeConfig(configDir, { postern, x402: x402Table(facilitatorUrl), job_pricing: PRICING });
    const sale = { redisUrl: redis.url, facilitatorUrl, path: JOB_PATH, network: NETWORK, payTo: PAY_TO };
    const terms = JSON.stringify({ ...sale, price: PRICE, maxTimeoutSeconds: MAX_TIMEOUT_SECS });
    return measure({
      ...world,
      facilitator: {
        count: async () => (await fetch(`${facilitatorUrl}/count`)).json() as Promise<FacilitatorCounts>,
        reset: async () => void (await fetch(`${facilitatorUrl}/reset`, { method: "POST" })),
        goFar: async () => void (await fetch(`${facilitatorUrl}/far`, { method: "POST" })),
      },
      async startX402() {
        const gateway = await stack.start("x402", { args: ["--bind-address", "127.0.0.1:0"] });
        await untilSelling(gateway);
        return gateway;
      },
      startBaselineChallenge: (address) =>
        start("baseline-challenge", "bench/baselines/challenge.ts", [`http://${address}${JOB_PATH}`]),
      startBaselinePaid: () => start("baseline-paid", "bench/baselines/paid.ts", [terms]),
    });
  };
  return inWorld(nodeArgs, measureIn, options);
}
