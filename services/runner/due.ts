import type { Redis } from "../../shared/redis/connect.ts";
import { defineScript } from "../../shared/redis/define-script.ts";
import { integer, list, optional, text, tuple } from "../../shared/redis/reply.ts";
import dueLua from "./due.lua";

const DUE = defineScript({
  source: dueLua,
  keys: "due",
  args: "countMax",
  proof: "reads",
  reply: tuple(list(text), optional(integer)),
});

export type Due = {
  /** Ids that are due, earliest due time first. */
  ids: string[];
  /** Ms until the next id becomes due, by the store's clock; undefined if none is waiting. */
  nextInMs: number | undefined;
};

/** Reads the due members of a sorted set whose scores are due times. */
export function createReadDue(redis: Redis, due: string) {
  const read = DUE.on(redis);
  return async (countMax: number): Promise<Due> => {
    const [ids, nextInMs] = await read({ due }, { countMax });
    return { ids, nextInMs };
  };
}
