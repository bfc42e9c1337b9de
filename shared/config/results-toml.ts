import { z } from "zod";
import { positive } from "./fields.ts";

const MIB = 1024 * 1024;

/** `[results]` of postern.toml: what is kept of what runners answer (shared/results). */
export const results = z
  .strictObject({
    secs: z
      .int()
      .min(60)
      .max(365 * 86_400)
      .default(86_400),
    // A producer holds that much of each call in hand, and writes it in one step.
    result_bytes_max: z
      .int()
      .min(0)
      .max(4 * MIB)
      .default(MIB / 4),
    bytes_max: positive.default(256 * MIB),
    deliveries: z.boolean().default(false),
  })
  .refine(({ result_bytes_max, bytes_max }) => result_bytes_max <= bytes_max, {
    path: ["result_bytes_max"],
    message: "is above bytes_max, which all results together may take",
  });

/** How results are kept (shared/results/keep-result.ts). */
export function toResultLimits({ results: table }: { results: z.output<typeof results> }) {
  const { secs, result_bytes_max, bytes_max } = table;
  return { resultMs: secs * 1000, resultBytesMax: result_bytes_max, bytesMax: bytes_max };
}
