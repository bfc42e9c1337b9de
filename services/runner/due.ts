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
  /** The longest due first. */
  ids: string[];
  /** Time until something else becomes due, by the store's clock; undefined if nothing will. */
  nextInMs: number | undefined;
};

/** Reads what is due of the members of a sorted set, whose scores are due times. */
export function createReadDue(redis: Redis, due: string) {
  const read = DUE.on(redis);
  return async (countMax: number): Promise<Due> => {
    const [ids, nextInMs] = await read({ due }, { countMax });
    return { ids, nextInMs };
  };
}
