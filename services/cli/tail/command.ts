import { type Command, InvalidArgumentError, Option } from "commander";
import { type EventOutcome, OUTCOMES } from "../../../shared/events/outcomes.ts";
import { whyNoJobKey } from "../../../shared/job-call/job-ids.ts";
import { ORIGINS } from "../../../shared/job-call/origin.ts";
import { configDir, parseCallId } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { TailOptions } from "./tail.ts";

/** `postern tail` and its options. */
export function addTail(program: Command, deps: ProgramDeps): void {
  program
    .command("tail")
    .description("follow live what happens to calls in all gateways and producers, until Ctrl-C")
    .option("--endpoint <path>", "of this webhook endpoint alone")
    .option("--job <service/job>", "of this job alone, as 7/1", parseJob)
    .addOption(new Option("--origin <origin>", "of calls that came in this way").choices([...ORIGINS]))
    .option("--outcome <list>", `some of ${OUTCOMES.join(", ")}, with commas between`, parseOutcomes)
    .option("--call <id>", "of this call alone", parseCallId)
    .option("--json", "one JSON object a line, as without a terminal")
    .addOption(configDir())
    .action(async (options: TailOptions) => {
      const { tail } = await import("./tail.ts");
      deps.exitWith(await tail(deps, options));
    });
}

function parseJob(text: string): string {
  const why = whyNoJobKey(text);
  if (why !== undefined) throw new InvalidArgumentError(`it ${why}`);
  return text;
}

function parseOutcomes(text: string): EventOutcome[] {
  return text.split(",").map((name) => {
    const outcome = OUTCOMES.find((known) => known === name.trim());
    if (outcome !== undefined) return outcome;
    throw new InvalidArgumentError(`an outcome is one of ${OUTCOMES.join(", ")}`);
  });
}
