import type { Command } from "commander";
import { callId, callIds, configDir, limitOption, operatorUrl, usageError, wholeNumber } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { BulkOptions } from "./bulk.ts";
import type { DiscardOptions } from "./discard.ts";
import { addFilterOptions, isFiltered } from "./filter.ts";
import type { ListOptions } from "./list.ts";
import type { ReplayOptions } from "./replay.ts";
import type { ShowOptions } from "./show.ts";

/** `postern failed ...`: its subcommands and their options. Each subcommand's work is in the file of its name. */
export function addFailed(program: Command, deps: ProgramDeps): void {
  const failed = program.command("failed").description("list, show, replay or discard failed calls");
  addList(failed, deps);
  addShow(failed, deps);
  addReplay(failed, deps);
  addDiscard(failed, deps);
}

function addList(failed: Command, deps: ProgramDeps): void {
  addFilterOptions(failed.command("list"), limitOption(50))
    .description("list failed calls, newest first")
    .option("--json", "print JSON, one object a line")
    .addOption(operatorUrl())
    .addOption(configDir())
    .action(async (options: ListOptions) => {
      const { listFailed } = await import("./list.ts");
      deps.exitWith(await listFailed(deps, options));
    });
}

function addShow(failed: Command, deps: ProgramDeps): void {
  failed
    .command("show")
    .description("show the metadata, failed attempts and body of a failed call")
    .addArgument(callId())
    .option("--full", "print the whole body instead of its beginning")
    .option("--body-only", "print only the raw bytes of the body")
    .option("--json", "print one JSON object, with the body in base64")
    .addOption(operatorUrl())
    .addOption(configDir())
    .action(async (id: string, options: ShowOptions) => {
      const { showFailed } = await import("./show.ts");
      deps.exitWith(await showFailed(deps, id, options));
    });
}

function addReplay(failed: Command, deps: ProgramDeps): void {
  addBulkOptions(failed.command("replay"))
    .description(
      "run failed calls again, oldest first, with the same Idempotency-Key and with all their attempts",
    )
    .option("--force", "include calls that the runner may have forgotten; it may run them twice")
    .option("--reason <text>", "reason for the audit trail")
    .action(async (ids: string[], given: ReplayOptions, command: Command) => {
      const options = withIds(ids, given);
      requireSelection(command, options);
      const { replayFailed } = await import("./replay.ts");
      deps.exitWith(await replayFailed(deps, options));
    });
}

function addDiscard(failed: Command, deps: ProgramDeps): void {
  addBulkOptions(failed.command("discard"))
    .description("end failed calls without running them, and delete their bodies")
    .requiredOption("--reason <text>", "reason for the audit trail")
    .option("--yes", "skip the confirmation prompt")
    .action(async (ids: string[], given: DiscardOptions, command: Command) => {
      const options = withIds(ids, given);
      requireSelection(command, options);
      if (!options.yes && !options.dryRun && !deps.terminal.canAsk)
        usageError(command, "--yes is required when stdin is not a terminal");
      const { discardFailed } = await import("./discard.ts");
      deps.exitWith(await discardFailed(deps, options));
    });
}

/** The options that replay and discard have in common. */
function addBulkOptions(command: Command): Command {
  return addFilterOptions(command, limitOption(0, "select at most n calls; 0 selects all"))
    .addArgument(callIds())
    .option("--all", "select every failed call (required without ids and filters)")
    .option("--dry-run", "count the calls and change nothing")
    .option(
      "--concurrency <n>",
      "number of calls to process at once",
      wholeNumber(8, { min: 1, max: 100 }),
      8,
    )
    .option("--json", "print one JSON object")
    .addOption(operatorUrl())
    .addOption(configDir());
}

/** Calls can be named as arguments and by --id. */
function withIds<Options extends BulkOptions>(ids: readonly string[], options: Options): Options {
  const all = new Set([...(options.id ?? []), ...ids]);
  return all.size === 0 ? options : { ...options, id: [...all] };
}

function requireSelection(command: Command, options: BulkOptions): void {
  const { all = false, id, ...filter } = options;
  const isChosen = all || isFiltered(filter);
  if (id !== undefined && isChosen) usageError(command, "pass ids, or filters, but not both");
  if (id === undefined && !isChosen)
    usageError(command, "select calls by id or with filters, or pass --all for every failed call");
}
