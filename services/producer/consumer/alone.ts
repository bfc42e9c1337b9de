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

/**
 * Lets only one worker at a time, across all partitions, take a call alone. A call that may have killed processes is taken
 * alone, so that its worker has no other call. The other workers continue with their calls.
 */
export function createAlone(control: Control, worker: string, lockMs: number) {
  const { redis, keys } = control.partition;
  const [claim, renew] = [CLAIM.on(redis), RENEW.on(redis)];
  const [touched, words] = [{ alone: keys.alone }, { worker, ms: lockMs }];
  return {
    /**
     * Claims the right, and resolves with whether this worker may take a call alone. It may not if partition 0 does not
     * answer.
     */
    claim: async () => (await askControl(control, () => claim(touched, words))) === true,
    /** Extends the claim, if this worker has it. */
    renew: () => renew(touched, words),
  };
}
