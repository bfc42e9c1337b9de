import { type Command, InvalidArgumentError, Option } from "commander";
import type { PaymentFilter } from "../../../shared/payments/list.ts";
import type { PaymentState } from "../../../shared/payments/payment.ts";
import { parseAddress, parseTime, wholeNumber } from "../options.ts";

const STATES = [
  "SETTLING",
  "SETTLED",
  "QUEUED",
  "FAILED",
  "INJECTED",
  "DISCARDED",
  "VOID",
  "REVIEW",
] as const satisfies readonly PaymentState[];

/** What `list` chooses payments by. A limit of 0 is none. */
export type FilterOptions = PaymentFilter & { limit: number };

export function addFilterOptions(command: Command): Command {
  return command
    .addOption(
      new Option("--state <state>", "in this state")
        .choices(STATES.map((state) => state.toLowerCase()))
        .argParser(parseState),
    )
    .option("--payer <address>", "paid by this address", parseAddress)
    .option("--since <time>", "claimed at or after: an ISO date (UTC), or 90s, 30m, 2h, 7d ago", parseTime)
    .option("--until <time>", "claimed at or before", parseTime)
    .option("--open", "not at its end yet: settling, review, settled, queued or failed")
    .option("--disputed", "given to the runner, and contradicted by the chain since")
    .option("--limit <n>", "at most so many; 0 for all", wholeNumber("a limit"), 50);
}

export function parseTransaction(text: string): string {
  if (/^0x[0-9a-fA-F]{64}$/.test(text)) return text.toLowerCase();
  throw new InvalidArgumentError("a transaction is 0x and 64 hex digits");
}

export function parseBlock(text: string): bigint {
  if (/^\d{1,18}$/.test(text)) return BigInt(text);
  throw new InvalidArgumentError("a block is a whole number");
}

function parseState(text: string): PaymentState {
  const state = STATES.find((each) => each.toLowerCase() === text.toLowerCase());
  if (state !== undefined) return state;
  throw new InvalidArgumentError(`a state is one of ${STATES.join(", ").toLowerCase()}`);
}
