import { type Command, InvalidArgumentError } from "commander";
import { REJECTED_ID_BEGINNING } from "../../../shared/rejected/entry.ts";
import { configDir, limitOption, operatorUrl, parseCode, sinceOption, usageError } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { ListOptions } from "./list.ts";
import type { ShowOptions } from "./show.ts";

/** `postern rejected ...`: its subcommands and their options. Each subcommand's work is in the file of its name. */
export function addRejected(program: Command, deps: ProgramDeps): void {
  const rejected = program
    .command("rejected")
    .description("look at the last webhooks that were refused, and why");
  addList(rejected, deps);
  addShow(rejected, deps);
}

function addList(rejected: Command, deps: ProgramDeps): void {
  rejected
    .command("list")
    .description("list refused requests, the newest first")
    .option("--path <path>", "refused by the endpoint with this path")
    .option("--unknown", "sent to a path that no endpoint has")
    .addOption(sinceOption("refused"))
    .option("--code <code>", "refused with this error, e.g. webhook.credential_rejected", parseCode)
    .addOption(limitOption(50))
    .option("--json", "one JSON object a line; the count goes to stderr")
    .addOption(operatorUrl())
    .addOption(configDir())
    .action(async (options: ListOptions, command: Command) => {
      if (options.unknown && options.path !== undefined)
        usageError(command, "--path and --unknown do not go together");
      const { listRejected } = await import("./list.ts");
      deps.exitWith(await listRejected(deps, options));
    });
}

function addShow(rejected: Command, deps: ProgramDeps): void {
  rejected
    .command("show")
    .description("show all that was kept of one refused request")
    .argument("<id>", "its id in the list, or as much of its beginning as no other has", parseRejectedId)
    .option("--json", "one JSON object, the body in base64")
    .addOption(operatorUrl())
    .addOption(configDir())
    .action(async (id: string, options: ShowOptions) => {
      const { showRejected } = await import("./show.ts");
      deps.exitWith(await showRejected(deps, id, options));
    });
}

function parseRejectedId(text: string): string {
  if (REJECTED_ID_BEGINNING.test(text)) return text;
  const form = "r_ and 19 lower-case hex digits, or the first four or more of them";
  throw new InvalidArgumentError(`an id of a rejected request is ${form}`);
}
