import { type Command, Option } from "commander";
import { CALL_STATES } from "../../../shared/calls/found-call.ts";
import { ORIGINS } from "../../../shared/job-call/origin.ts";
import {
  callId,
  configDir,
  limitOption,
  operatorUrl,
  parseAddress,
  parseCallId,
  parseJobKey,
  parseTransaction,
  sinceOption,
  untilOption,
  usageError,
} from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { FindOptions } from "./find.ts";
import type { ForgetOptions } from "./forget.ts";
import type { ShowOptions } from "./show.ts";

/** `postern calls ...`: its subcommands and their options. Each subcommand's work is in the file of its name. */
export function addCalls(program: Command, deps: ProgramDeps): void {
  const calls = program
    .command("calls")
    .description("look for calls, show the life of any, or have what is kept of its sender forgotten");
  addFind(calls, deps);
  addShow(calls, deps);
  addForget(calls, deps);
}

function addFind(calls: Command, deps: ProgramDeps): void {
  calls
    .command("find")
    .description("list calls by whatever is known of them, wherever they are, the newest first")
    .option("--id <id>", "the call with this id", parseCallId)
    .option("--delivery-id <id>", "the sender's own id of the delivery")
    .option("--endpoint <path>", "the webhook path it came in by")
    .option("--payer <address>", "paid by this address", parseAddress)
    .option("--transaction <hash>", "paid in this transaction", parseTransaction)
    .addOption(new Option("--origin <origin>", "how it came in").choices(ORIGINS))
    .option("--job <service/job>", "the job it is for, as 7/1", parseJobKey)
    .addOption(new Option("--state <state>", "in this state").choices(CALL_STATES))
    .addOption(sinceOption("in its state since"))
    .addOption(untilOption("in its state since"))
    .addOption(limitOption(50))
    .option("--json", "one JSON object a line; the count goes to stderr")
    .addOption(operatorUrl())
    .addOption(configDir())
    .action(async (options: FindOptions) => {
      const { findCalls } = await import("./find.ts");
      deps.exitWith(await findCalls(deps, options));
    });
}

function addShow(calls: Command, deps: ProgramDeps): void {
  calls
    .command("show")
    .description(
      "show the life of one call, whatever became of it: what happened when, its newest attempts, its result, its metadata",
    )
    .addArgument(callId())
    .addOption(
      new Option("--body-only", "the raw bytes of its body and nothing else, while it is kept").conflicts([
        "resultOnly",
        "json",
      ]),
    )
    .addOption(new Option("--result-only", "the raw bytes of its result and nothing else").conflicts("json"))
    .option("--json", "one JSON object, without body and result")
    .addOption(operatorUrl())
    .addOption(configDir())
    .action(async (id: string, options: ShowOptions) => {
      const { showCall } = await import("./show.ts");
      deps.exitWith(await showCall(deps, id, options));
    });
}

function addForget(calls: Command, deps: ProgramDeps): void {
  calls
    .command("forget")
    .description(
      "delete body, metadata, result and attempts of a call that has ended or failed; it stays known, and never runs again",
    )
    .addArgument(callId())
    .requiredOption("--reason <text>", "why, for the audit")
    .option("--yes", "do not ask")
    .addOption(operatorUrl())
    .addOption(configDir())
    .action(async (id: string, options: ForgetOptions, command: Command) => {
      if (options.reason.trim() === "") usageError(command, "--reason is empty");
      if (!options.yes && !deps.terminal.canAsk)
        usageError(command, "nobody is there to be asked; --yes forgets without asking");
      const { forgetCall } = await import("./forget.ts");
      deps.exitWith(await forgetCall(deps, id, options));
    });
}
