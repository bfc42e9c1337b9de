import { Option } from "commander";
import { ORIGINS } from "../../../shared/call/origin.ts";
import { problemOfText } from "../../../shared/call/search-text.ts";
import { SEARCHED_STATES } from "../../../shared/call-search/found-call.ts";
import { GROUP, type ProgramCommand } from "../command.ts";
import {
  CALL,
  callId,
  configDir,
  limitOption,
  operatorUrl,
  parseAddress,
  parseCallId,
  parseCode,
  parseJobKey,
  parseTransaction,
  refuseValue,
  sinceOption,
  untilOption,
  usageError,
} from "../options.ts";
import { jsonOutput, listOutput } from "../output-options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { ForgetOptions } from "./forget.ts";
import type { ListOptions } from "./list.ts";
import type { ReplayOptions } from "./replay.ts";
import type { RunNowOptions } from "./run-now.ts";
import type { ShowOptions } from "./show.ts";

const STATES = `
States:
  waiting         in the queue
  delayed         in the queue until the time of its next attempt
  held            in the queue until its endpoint is enabled
  active          in flight: a producer has sent it to the runner
  queued          accepted, and not ended yet: waiting, delayed, held or active
  missing         accepted, but its queue lost it; a webhook call is found only
                  by its id
  injected        the runner has answered 2xx
  failed          not attempted again until an operator replays it
  discarded       ended by an operator without running; a webhook call is found
                  only by its id
  settling        the payment is being made
  review          an operator must decide whether the payment was made
  void            the payment was not made and can no longer be made
  refund_pending  a refund is exported, but not yet on the chain
  refunded        a refund is on the chain`;

/** Adds `postern calls ...` with its options. Each subcommand is implemented in the file of its name. */
export function addCalls(program: ProgramCommand, deps: ProgramDeps): void {
  const calls = program
    .command("calls")
    .description("list, show, run, replay or forget calls")
    .helpGroup(GROUP.look);
  addList(calls, deps);
  addShow(calls, deps);
  addRunNow(calls, deps);
  addReplay(calls, deps);
  addForget(calls, deps);
}

function addList(calls: ProgramCommand, deps: ProgramDeps): void {
  calls
    .command("list")
    .description("list calls, newest first")
    .helpGroup(GROUP.look)
    .option(
      "--text <text>",
      "start of any id, payer or transaction, or a part of the event type, endpoint or error",
      parseSearchText,
    )
    .option("--call <id>", "id of the call, or a prefix of it", parseCallId)
    .option("--delivery-id <id>", "sender's id of the delivery")
    .option("--endpoint <path>", "endpoint that received the webhook")
    .option("--event <type>", "event type of the webhook")
    .option("--code <code>", "error code of the failure, or of the last failed attempt", parseCode)
    .option("--payer <address>", "address that paid for the call", parseAddress)
    .option("--transaction <hash>", "transaction that paid for the call", parseTransaction)
    .addOption(new Option("--origin <origin>", "origin of the call").choices(ORIGINS))
    .option("--job <service/job>", "job of the call, such as 7/1", parseJobKey)
    .addOption(new Option("--state <state>", "state of the call; see below").choices(SEARCHED_STATES))
    .addOption(sinceOption("updated"))
    .addOption(untilOption("updated"))
    .addOption(limitOption(50))
    .addOption(
      new Option(
        "--facets",
        "count the matching calls by state, endpoint, job, event type and error code, instead of listing them",
      ),
    )
    .addOption(listOutput())
    .addOption(operatorUrl())
    .addOption(configDir())
    .addHelpText("after", STATES)
    .examples(
      "calls list --text evt_1Pq",
      "calls list --job 7/1 --state failed",
      "calls list --endpoint /hooks/github --since 2h --facets",
    )
    .action(async (options: ListOptions) => {
      const command = options.facets
        ? (await import("./facets.ts")).countFacets
        : (await import("./list.ts")).listCalls;
      deps.exitWith(await command(deps, options));
    });
}

function parseSearchText(text: string): string {
  const problem = problemOfText(text);
  return problem === undefined ? text : refuseValue(problem, "evt_1Pq");
}

function addShow(calls: ProgramCommand, deps: ProgramDeps): void {
  calls
    .command("show")
    .description("show the state, timeline, result and metadata of a call")
    .helpGroup(GROUP.look)
    .addArgument(callId())
    .addOption(
      new Option("--body-only", "print only the raw bytes of the body").conflicts(["resultOnly", "output"]),
    )
    .addOption(new Option("--result-only", "print only the raw bytes of the result").conflicts("output"))
    .addOption(jsonOutput("print one JSON object, without body and result"))
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples(`calls show ${CALL}`, `calls show ${CALL} --body-only > body`)
    .action(async (id: string, options: ShowOptions) => {
      const { showCall } = await import("./show.ts");
      deps.exitWith(await showCall(deps, id, options));
    });
}

function addRunNow(calls: ProgramCommand, deps: ProgramDeps): void {
  calls
    .command("run-now")
    .description(
      "run a delayed call now; if its runner still fails, the attempt counts. For all calls of a job: postern jobs run-delayed",
    )
    .helpGroup(GROUP.act)
    .addArgument(callId())
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples(`calls run-now ${CALL}`)
    .action(async (id: string, options: RunNowOptions) => {
      const { runCallNow } = await import("./run-now.ts");
      deps.exitWith(await runCallNow(deps, id, options));
    });
}

function addReplay(calls: ProgramCommand, deps: ProgramDeps): void {
  calls
    .command("replay")
    .description(
      "run a kept webhook again, as a new call with another id; its endpoint must set keep_delivered. For failed calls: postern failed replay",
    )
    .helpGroup(GROUP.act)
    .addArgument(callId())
    .requiredOption("--reason <text>", "reason for the audit log")
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples(`calls replay ${CALL} --reason "the runner lost it"`)
    .action(async (id: string, options: ReplayOptions, command: ProgramCommand) => {
      if (options.reason.trim() === "") usageError(command, "--reason must not be empty");
      const { replayCall } = await import("./replay.ts");
      deps.exitWith(await replayCall(deps, id, options));
    });
}

function addForget(calls: ProgramCommand, deps: ProgramDeps): void {
  calls
    .command("forget")
    .description(
      "delete the body, metadata, result and attempts of an ended or failed call; its id stays, so that it never runs again",
    )
    .helpGroup(GROUP.act)
    .addArgument(callId())
    .requiredOption("--reason <text>", "reason for the audit log")
    .option("--yes", "skip the confirmation prompt")
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples(`calls forget ${CALL} --reason "asked by its sender"`)
    .action(async (id: string, options: ForgetOptions, command: ProgramCommand) => {
      if (options.reason.trim() === "") usageError(command, "--reason must not be empty");
      if (!options.yes && !deps.terminal.canAsk)
        usageError(command, "--yes is required when stdin is not a terminal");
      const { forgetCall } = await import("./forget.ts");
      deps.exitWith(await forgetCall(deps, id, options));
    });
}
