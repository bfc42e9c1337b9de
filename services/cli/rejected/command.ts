import { Option } from "commander";
import { NOT_A_REJECTED_ID, REJECTED_ID_BEGINNING } from "../../../shared/telemetry/rejected/entry.ts";
import { GROUP, type ProgramCommand } from "../command.ts";
import { configDir, limitOption, operatorUrl, parseCode, refuseValue, sinceOption } from "../options.ts";
import { jsonOutput, listOutput } from "../output-options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { ListOptions } from "./list.ts";
import type { ShowOptions } from "./show.ts";

/** Adds `postern rejected ...` with its options. Each subcommand is implemented in the file of its name. */
export function addRejected(program: ProgramCommand, deps: ProgramDeps): void {
  const rejected = program
    .command("rejected")
    .description("list or show requests that webhooks gateways refused recently")
    .helpGroup(GROUP.look);
  addList(rejected, deps);
  addShow(rejected, deps);
}

function addList(rejected: ProgramCommand, deps: ProgramDeps): void {
  rejected
    .command("list")
    .description("list refused requests, newest first")
    .helpGroup(GROUP.look)
    .option("--endpoint <path>", "endpoint that refused the request")
    .addOption(new Option("--unknown", "only requests to a path that no endpoint has").conflicts("endpoint"))
    .addOption(sinceOption("refused"))
    .option("--code <code>", "error code of the refusal, such as webhook.credential_rejected", parseCode)
    .addOption(limitOption(50))
    .addOption(listOutput())
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples("rejected list --endpoint /hooks/github", "rejected list --unknown --since 1h")
    .action(async (options: ListOptions) => {
      const { listRejected } = await import("./list.ts");
      deps.exitWith(await listRejected(deps, options));
    });
}

function addShow(rejected: ProgramCommand, deps: ProgramDeps): void {
  rejected
    .command("show")
    .description("show the details of a refused request")
    .helpGroup(GROUP.look)
    .argument("<id>", "id of the request, or a unique prefix of it", parseRejectedId)
    .addOption(jsonOutput("print one JSON object, with the body in base64"))
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples("rejected show r_4f1b")
    .action(async (id: string, options: ShowOptions) => {
      const { showRejected } = await import("./show.ts");
      deps.exitWith(await showRejected(deps, id, options));
    });
}

function parseRejectedId(text: string): string {
  if (REJECTED_ID_BEGINNING.test(text)) return text;
  return refuseValue(NOT_A_REJECTED_ID, "r_4f1b");
}
