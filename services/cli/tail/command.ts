import { Option } from "commander";
import { ORIGINS } from "../../../shared/call/origin.ts";
import { type EventOutcome, OUTCOMES } from "../../../shared/telemetry/events/outcomes.ts";
import { GROUP, type ProgramCommand } from "../command.ts";
import { configDir, operatorUrl, parseCallId, parseJobKey, refuseValue } from "../options.ts";
import { jsonOutput } from "../output-options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { TailOptions } from "./tail.ts";

/** Adds `postern tail` with its options. */
export function addTail(program: ProgramCommand, deps: ProgramDeps): void {
  program
    .command("tail")
    .description("follow the events of calls in all gateways and producers until Ctrl-C")
    .helpGroup(GROUP.look)
    .option("--endpoint <path>", "endpoint that received the webhook")
    .option("--job <service/job>", "job of the call, such as 7/1", parseJobKey)
    .addOption(new Option("--origin <origin>", "origin of the call").choices([...ORIGINS]))
    .option(
      "--outcome <list>",
      `outcomes of the events, separated by commas: ${NAMES.join(", ")}`,
      parseOutcomes,
    )
    .option("--call <id>", "id of the call, or a prefix of it", parseCallId)
    .addOption(jsonOutput("print JSON, one object a line (default without a terminal)"))
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples("tail --endpoint /hooks/github", "tail --outcome refused,failed")
    .action(async (options: TailOptions) => {
      const { tail } = await import("./tail.ts");
      deps.exitWith(await tail(deps, options));
    });
}

/**
 * Names that --outcome accepts. `delayed` is an attempt after which the call waits for the next one. JSON calls this
 * outcome `retried`, so --outcome accepts that name too.
 */
const NAMES = OUTCOMES.map((outcome) => (outcome === "retried" ? "delayed" : outcome));

function parseOutcomes(text: string): EventOutcome[] {
  return text.split(",").map((name) => {
    const outcome = OUTCOMES.find((known, n) => known === name.trim() || NAMES[n] === name.trim());
    if (outcome !== undefined) return outcome;
    return refuseValue(`must be outcomes, separated by commas: ${NAMES.join(", ")}`, "refused,failed");
  });
}
