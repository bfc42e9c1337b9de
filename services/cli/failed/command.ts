import type { Command } from "commander";
import { callId, callIds, configDir, operatorUrl, usageError, wholeNumber } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { BulkOptions } from "./bulk.ts";
import type { DiscardOptions } from "./discard.ts";
import { addFilterOptions, isFiltered } from "./filter.ts";
import type { ListOptions } from "./list.ts";
import type { ReplayOptions } from "./replay.ts";
import type { ShowOptions } from "./show.ts";

/** `postern failed ...`: its subcommands and their options. Each subcommand's work is in the file of its name. */
export function addFailed(program: Command, deps: ProgramDeps): void {
  const failed = program.command("failed").description("look at, replay or discard failed calls");
  addList(failed, deps);
  addShow(failed, deps);
  addReplay(failed, deps);
  addDiscard(failed, deps);
}

function addList(failed: Command, deps: ProgramDeps): void {
  addFilterOptions(failed.command("list"), { limit: 50 })
    .description("list failed calls, the newest first")
    .option("--json", "one JSON object a line; the count goes to stderr")
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
    .description("show one failed call: metadata, failed attempts, body")
    .addArgument(callId())
    .option("--full", "the whole body, however long")
    .option("--body-only", "the raw bytes of the body and nothing else")
    .option("--json", "one JSON object, the body in base64")
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
      "put failed calls back into the queue, with all their attempts, under the same keys; the oldest first",
    )
    .option("--force", "also calls older than the runner's memory of keys, which it may run twice")
    .option("--reason <text>", "why, for the audit")
    .action(async (ids: string[], given: ReplayOptions, command: Command) => {
      const options = withIds(ids, given);
      requireSelection(command, options);
      const { replayFailed } = await import("./replay.ts");
      deps.exitWith(await replayFailed(deps, options));
    });
}

function addDiscard(failed: Command, deps: ProgramDeps): void {
  addBulkOptions(failed.command("discard"))
    .description("end failed calls for good, without running them; their bodies are deleted")
    .requiredOption("--reason <text>", "why, for the audit")
    .option("--yes", "do not ask")
    .action(async (ids: string[], given: DiscardOptions, command: Command) => {
      const options = withIds(ids, given);
      requireSelection(command, options);
      if (!options.yes && !options.dryRun && !deps.terminal.canAsk)
        usageError(command, "nobody is there to be asked; --yes discards without asking");
      const { discardFailed } = await import("./discard.ts");
      deps.exitWith(await discardFailed(deps, options));
    });
}

/** The options that replay and discard have in common. */
function addBulkOptions(command: Command): Command {
  return addFilterOptions(command, { limit: 0 })
    .addArgument(callIds())
    .option("--all", "every failed call; needed if no call is named and no filter is given")
    .option("--dry-run", "say how many calls it would be, and change nothing")
    .option("--concurrency <n>", "calls at a time", wholeNumber("concurrency", { min: 1, max: 100 }), 8)
    .option("--json", "the outcome as one JSON object")
    .addOption(operatorUrl())
    .addOption(configDir());
}

/** Calls can be named as arguments and by --id. */
function withIds<Options extends BulkOptions>(ids: readonly string[], options: Options): Options {
  const all = new Set([...(options.id ?? []), ...ids]);
  return all.size === 0 ? options : { ...options, id: [...all] };
}

function requireSelection(command: Command, options: BulkOptions): void {
  if (options.all || isFiltered(options)) return;
  usageError(command, "name calls or filters; --all means every failed call");
}
