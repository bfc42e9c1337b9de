import { z } from "zod";
import {
  decimals,
  evmAddress,
  markupBps,
  network,
  rate,
  tokenSymbol,
} from "../../shared/config/evm-fields.ts";
import { httpUrl, isTable } from "../../shared/config/fields.ts";
import { messageFor, problemsOf, report, textOf } from "../../shared/config/problem.ts";
import { AppError } from "../../shared/errors/app-error.ts";

/** What the schema reads of options of code. Throws `start.config_invalid`, which names each option that is wrong, one a line. */
export function checkedOptions<Schema extends z.ZodType>(schema: Schema, options: unknown): z.output<Schema> {
  const { data, error } = schema.safeParse(options, { error: messageFor });
  if (error === undefined) return data;
  const problems = error.issues.flatMap(problemsOf).map((problem) => textOf(problem, options));
  throw new AppError("start.config_invalid", { reason: problems.join("\n") });
}

/** A rate in figures, by the file's rule; a source is as `x402Toml` has read it. */
const rateOrSource = z.unknown().superRefine((value, context) => {
  if (isTable(value)) return;
  const { error } = rate.safeParse(value, { error: messageFor });
  report(context, error?.issues.slice(0, 1).flatMap(problemsOf) ?? []);
});

const acceptedToken = z.object({
  network,
  asset: evmAddress,
  symbol: tokenSymbol,
  decimals,
  markup_bps: markupBps,
  pay_to: evmAddress,
  rate_per_native_unit: rateOrSource,
});

/** The options of `withX402Settlement`. */
export const settlementOptions = z
  .object({ endpoint: httpUrl, acceptedTokens: z.array(acceptedToken), rateOf: z.unknown().optional() })
  .superRefine(({ acceptedTokens, rateOf }, context) => {
    const live = acceptedTokens.findIndex(({ rate_per_native_unit }) => isTable(rate_per_native_unit));
    if (rateOf !== undefined || live === -1) return;
    report(context, [
      { path: ["rateOf"], message: `is missing: the rate of acceptedTokens[${live}] has to be read` },
    ]);
  });
