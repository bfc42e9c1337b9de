import { z } from "zod";
import { parseJson } from "../platform/text/parse-json.ts";
import { defineScript } from "../redis/define-script.ts";
import { toScored } from "../redis/pages.ts";
import type { Partition } from "../redis/partition.ts";
import { nothing } from "../redis/reply.ts";
import noteSpentElsewhereLua from "./note-spent-elsewhere.lua";
import { PaymentTerms } from "./payment.ts";

export const SpentElsewhereTerms = PaymentTerms.omit({
  quote_digest: true,
  x402_version: true,
  body_bytes: true,
}).extend({
  /**
   * The chain's newest block when the payment arrived. The authorization was used or cancelled in this block or an earlier
   * one.
   */
  block: z.string().regex(/^\d+$/),
});

/** A payment that a gateway refused, because its authorization had been used or cancelled before. */
export type SpentElsewhere = z.infer<typeof SpentElsewhereTerms> & {
  /** The call that the payment would have bought. */
  id: string;
  /** When the payment first arrived, unix ms. */
  at: number;
};

/**
 * Maximum number of kept payments; a new one evicts the oldest. Without a limit, strangers could fill Redis, because anyone
 * can send an authorization that is public on the chain.
 */
const KEPT_MAX = 1000;

const NOTE = defineScript({
  source: noteSpentElsewhereLua,
  keys: "times, payments",
  args: "id, at, payment",
  constants: { KEPT_MAX },
  proof: "needed",
  reply: nothing,
});

export type SpentElsewhereList = ReturnType<typeof createSpentElsewhere>;

/**
 * Creates functions that keep and list payments which an operator may want to refund. They were meant for a job of this
 * deployment. But their authorization had been used or cancelled before they arrived, so no job was sold.
 */
export function createSpentElsewhere({ redis, keys }: Partition) {
  const note = NOTE.on(redis);
  const { spentElsewhere: times, spentElsewhereOf: payments } = keys;
  return {
    async note({ id, at, ...payment }: SpentElsewhere): Promise<void> {
      await note({ times, payments }, { id, at, payment: JSON.stringify(payment) });
    },

    /** Lists the kept payments, newest first. Entries that cannot be read are left out. */
    async list(): Promise<SpentElsewhere[]> {
      const entries = toScored(await redis.zrevrange(times, 0, KEPT_MAX - 1, "WITHSCORES"));
      if (entries.length === 0) return [];
      const texts = await redis.hmget(payments, ...entries.map(({ member }) => member));
      return entries.flatMap(({ member: id, score: at }, i) => {
        const stored = SpentElsewhereTerms.safeParse(parseJson(texts[i] ?? undefined)).data;
        return stored === undefined ? [] : [{ id, at, ...stored }];
      });
    },
  };
}
