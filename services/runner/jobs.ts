import { z } from "zod";
import { keccak256Hex } from "../../shared/chain/encoding.ts";
import { delay } from "../../shared/platform/time/clock.ts";
import { json, type LongJob, type ShortJob } from "./router.ts";

/** Answers with the body and its Content-Type, unchanged. */
export const echo: ShortJob = {
  name: "echo",
  handler: ({ body, contentType }) => ({ body, ...(contentType !== undefined && { contentType }) }),
};

/** Answers with the Keccak-256 of the body. */
export const keccak256: ShortJob = {
  name: "keccak256",
  handler: ({ body }) => ({ json: { keccak256: keccak256Hex(body) } }),
};

const Input = z.strictObject({
  steps: z.int().min(1).max(1000).default(3),
  ms_per_step: z.int().min(0).max(60_000).default(100),
});

/** A long job that waits, reports its progress, and answers with its duration. An empty body selects the defaults. */
export const slow: LongJob<z.infer<typeof Input>> = {
  name: "slow",
  long: true,
  input: {
    extract: (request) => (request.body.length === 0 ? Input.parse({}) : json(Input).extract(request)),
  },
  async handler({ input, signal, progress }) {
    const startedAt = performance.now();
    for (let step = 1; step <= input.steps; step++) {
      await delay(input.ms_per_step, signal);
      progress({ step, steps: input.steps });
    }
    return { json: { steps: input.steps, ms: Math.round(performance.now() - startedAt) } };
  },
};
