import type { Redis } from "../redis/connect.ts";
import { keys } from "../redis/keys.ts";
import { toScored } from "../redis/scored.ts";

const AT_ONCE = 500;

/** When the gateways' reconciler looks at which payment. */
export function createDue(redis: Redis) {
  return {
    /** Undefined for a payment that needs no looking after. */
    async at(id: string): Promise<number | undefined> {
      const score = await redis.zscore(keys.paymentsDue, id);
      return score === null ? undefined : Number(score);
    },

    /** All that are looked after, in pages. One that is moved meanwhile may come twice. */
    async *ids(): AsyncGenerator<string[]> {
      let cursor = "0";
      do {
        const [next, reply] = await redis.zscan(keys.paymentsDue, cursor, "COUNT", AT_ONCE);
        cursor = next;
        if (reply.length > 0) yield toScored(reply).map(({ member }) => member);
      } while (cursor !== "0");
    },
  };
}
