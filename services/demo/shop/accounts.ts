import { offersOf } from "../offers.ts";
import type { Demo } from "../scene.ts";
import type { Balances, Shop } from "./shop.ts";

/** All that was paid, each number from a place that knows nothing of the others. */
export type Accounts = {
  /** From the gateways' journal. */
  settled: { count: number; units: bigint; ids: ReadonlySet<string> };
  /** From the chain's logs. */
  charged: { count: number; units: bigint };
  /** From the runner's log: jobs of settled payments that ran to their end once. */
  ranOnce: number;
  /** From the chain's state. */
  after: Balances;
};

export async function account({ world }: Demo, shop: Shop): Promise<Accounts> {
  const [settled, charges, after] = await Promise.all([
    shop.journal.settled(),
    shop.chain.charges(),
    shop.balances(),
  ]);
  const ids = new Set(settled.map(({ id }) => id));
  const { runs } = offersOf(world.logs.runner, (callId) => ids.has(callId));
  return {
    settled: { count: settled.length, units: sum(settled.map(({ units }) => units)), ids },
    charged: { count: charges.length, units: sum(charges.map(({ units }) => units)) },
    ranOnce: [...runs.values()].filter((times) => times === 1).length,
    after,
  };
}

/** How each balance changed. */
export function changes({ before }: Shop, { after }: Accounts): ReadonlyMap<string, bigint> {
  return new Map([...after].map(([name, units]) => [name, units - (before.get(name) ?? 0n)]));
}

export function sum(numbers: readonly bigint[]): bigint {
  return numbers.reduce((total, each) => total + each, 0n);
}
