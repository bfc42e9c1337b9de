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
  /** The newest block when it came: the authorization was spent in this one or in an earlier one. */
  block: z.string().regex(/^\d+$/),
});

/** A payment that came here and was refused, because its authorization had been used or cancelled before. */
export type SpentElsewhere = z.infer<typeof SpentElsewhereTerms> & {
  /** The call that it would have bought. */
  id: string;
  /** When it came first, unix ms. */
  at: number;
};

/** Anybody can send what is public on the chain: so many are kept, and the newest push the oldest out. */
const KEPT = 1000;

const NOTE = defineScript({
  source: noteSpentElsewhereLua,
  keys: "times, payments",
  args: "id, at, payment",
  constants: { KEPT },
  proof: "needed",
  reply: nothing,
});

export type SpentElsewhereList = ReturnType<typeof createSpentElsewhere>;

/** What an operator may want to give back: payments for a job here that were spent before they came, so that none was sold. */
export function createSpentElsewhere({ redis, keys }: Partition) {
  const note = NOTE.on(redis);
  const { spentElsewhere: times, spentElsewhereOf: payments } = keys;
  return {
    async note({ id, at, ...payment }: SpentElsewhere): Promise<void> {
      await note({ times, payments }, { id, at, payment: JSON.stringify(payment) });
    },

    /** The newest first. What cannot be read is left out. */
    async list(): Promise<SpentElsewhere[]> {
      const came = toScored(await redis.zrevrange(times, 0, KEPT - 1, "WITHSCORES"));
      if (came.length === 0) return [];
      const texts = await redis.hmget(payments, ...came.map(({ member }) => member));
      return came.flatMap(({ member: id, score: at }, i) => {
        const stored = SpentElsewhereTerms.safeParse(parseJson(texts[i] ?? undefined)).data;
        return stored === undefined ? [] : [{ id, at, ...stored }];
      });
    },
  };
}
