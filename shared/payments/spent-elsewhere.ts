import { z } from "zod";
import { toScored } from "../redis/pages.ts";
import type { Partition } from "../redis/partition.ts";
import { script } from "../redis/script.ts";
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

/** KEYS times, payments. ARGV id, at, payment, how many are kept. The first time that a payment came is the one that is kept. */
const NOTE = `
if redis.call('HSETNX', KEYS[2], ARGV[1], ARGV[3]) == 0 then return end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
local over = redis.call('ZCARD', KEYS[1]) - tonumber(ARGV[4])
if over <= 0 then return end
local oldest = redis.call('ZPOPMIN', KEYS[1], over)
for i = 1, #oldest, 2 do redis.call('HDEL', KEYS[2], oldest[i]) end`;

export type SpentElsewhereList = ReturnType<typeof createSpentElsewhere>;

/** What an operator may want to give back: payments for a job here that were spent before they came, so that none was sold. */
export function createSpentElsewhere({ redis, keys }: Partition) {
  const note = script(redis, NOTE);
  return {
    async note({ id, at, ...payment }: SpentElsewhere): Promise<void> {
      await note([keys.spentElsewhere, keys.spentElsewhereOf], [id, at, JSON.stringify(payment), KEPT]);
    },

    /** The newest first. What cannot be read is left out. */
    async list(): Promise<SpentElsewhere[]> {
      const came = toScored(await redis.zrevrange(keys.spentElsewhere, 0, KEPT - 1, "WITHSCORES"));
      if (came.length === 0) return [];
      const texts = await redis.hmget(keys.spentElsewhereOf, ...came.map(({ member }) => member));
      return came.flatMap(({ member: id, score: at }, i) => {
        const stored = readStored(texts[i] ?? null);
        return stored === undefined ? [] : [{ id, at, ...stored }];
      });
    },
  };
}

function readStored(text: string | null): z.infer<typeof SpentElsewhereTerms> | undefined {
  try {
    return SpentElsewhereTerms.parse(JSON.parse(text ?? ""));
  } catch {
    return undefined;
  }
}
