import { defineScript } from "../../../shared/redis/define-script.ts";
import { flag, nothing } from "../../../shared/redis/reply.ts";
import claimAloneLua from "./claim-alone.lua";
import { askControl, type Control } from "./control.ts";
import renewAloneLua from "./renew-alone.lua";

const CLAIM = defineScript({
  source: claimAloneLua,
  keys: "alone",
  args: "worker, ms",
  proof: "expendable",
  reply: flag,
});

const RENEW = defineScript({
  source: renewAloneLua,
  keys: "alone",
  args: "worker, ms",
  proof: "expendable",
  reply: nothing,
});

export type Alone = ReturnType<typeof createAlone>;

/** One worker at a time takes a call alone, over all partitions. The others go on meanwhile. */
export function createAlone(control: Control, worker: string, lockMs: number) {
  const { redis, keys } = control.partition;
  const [claim, renew] = [CLAIM.on(redis), RENEW.on(redis)];
  const [touched, words] = [{ alone: keys.alone }, { worker, ms: lockMs }];
  return {
    /** Whether this worker is the one. Without an answer of partition 0, it is not. */
    claim: async () => (await askControl(control, () => claim(touched, words))) === true,
    /** As long as this worker is the one, it stays so. */
    renew: () => renew(touched, words),
  };
}
