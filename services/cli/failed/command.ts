import { GROUP, type ProgramCommand } from "../command.ts";
import {
  CALL,
  callId,
  callIds,
  configDir,
  limitOption,
  operatorUrl,
  usageError,
  wholeNumber,
} from "../options.ts";
import { jsonOutput, listOutput } from "../output-options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { BulkOptions } from "./bulk.ts";
import type { DiscardOptions } from "./discard.ts";
import { addFilterOptions, isFiltered } from "./filter.ts";
import type { ListOptions } from "./list.ts";
import type { ReplayOptions } from "./replay.ts";
import type { ShowOptions } from "./show.ts";

/** Adds `postern failed ...` with its options. Each subcommand is implemented in the file of its name. */
export function addFailed(program: ProgramCommand, deps: ProgramDeps): void {
  const failed = program
    .command("failed")
    .description("list, show, replay or discard failed calls")
    .helpGroup(GROUP.act);
  addList(failed, deps);
  addShow(failed, deps);
  addReplay(failed, deps);
  addDiscard(failed, deps);
}

function addList(failed: ProgramCommand, deps: ProgramDeps): void {
  addFilterOptions(failed.command("list"), limitOption(50))
    .description("list failed calls, newest first")
    .helpGroup(GROUP.look)
    .addOption(listOutput())
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples("failed list --job 7/1", "failed list --code runner.refused --since 1d")
    .action(async (options: ListOptions) => {
      const { listFailed } = await import("./list.ts");
      deps.exitWith(await listFailed(deps, options));
    });
}

function addShow(failed: ProgramCommand, deps: ProgramDeps): void {
  failed
    .command("show")
    .description("show the metadata, failed attempts and body of a failed call")
    .helpGroup(GROUP.look)
    .addArgument(callId())
    .option("--full", "print the whole body instead of its beginning")
    .option("--body-only", "print only the raw bytes of the body")
    .addOption(jsonOutput("print one JSON object, with the body in base64"))
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples(`failed show ${CALL}`, `failed show ${CALL} --body-only > body`)
    .action(async (id: string, options: ShowOptions) => {
      const { showFailed } = await import("./show.ts");
      deps.exitWith(await showFailed(deps, id, options));
    });
}

function addReplay(failed: ProgramCommand, deps: ProgramDeps): void {
  addBulkOptions(failed.command("replay"))
    .description(
      "run failed calls again, oldest first, with the same Idempotency-Key and a new set of attempts",
    )
    .helpGroup(GROUP.act)
    .option("--force", "include calls that the runner may have forgotten; it may run them twice")
    .option("--reason <text>", "reason for the audit log")
    .examples(`failed replay ${CALL}`, "failed replay --job 7/1 --dry-run", "failed replay --all")
    .action(async (ids: string[], given: ReplayOptions, command: ProgramCommand) => {
      const options = withIds(ids, given);
      requireSelection(command, options);
      const { replayFailed } = await import("./replay.ts");
      deps.exitWith(await replayFailed(deps, options));
    });
}

function addDiscard(failed: ProgramCommand, deps: ProgramDeps): void {
  addBulkOptions(failed.command("discard"))
    .description("end failed calls without running them, and delete their bodies")
    .helpGroup(GROUP.act)
    .requiredOption("--reason <text>", "reason for the audit log")
    .option("--yes", "skip the confirmation prompt")
    .examples(`failed discard ${CALL} --reason "a test"`)
    .action(async (ids: string[], given: DiscardOptions, command: ProgramCommand) => {
      const options = withIds(ids, given);
      requireSelection(command, options);
      if (!options.yes && !options.dryRun && !deps.terminal.canAsk)
        usageError(command, "--yes is required when stdin is not a terminal");
      const { discardFailed } = await import("./discard.ts");
      deps.exitWith(await discardFailed(deps, options));
    });
}

/** Adds the options that `replay` and `discard` share. */
function addBulkOptions(command: ProgramCommand): ProgramCommand {
  return addFilterOptions(command, limitOption(0, "select at most n calls; 0 selects all"))
    .addArgument(callIds())
    .option("--all", "select every failed call (required without ids and filters)")
    .option("--dry-run", "count the calls and change nothing")
    .option(
      "--concurrency <n>",
      "number of calls to process at once",
      wholeNumber({ example: 8, min: 1, max: 100 }),
      8,
    )
    .addOption(operatorUrl())
    .addOption(configDir());
}

/** Combines the ids given as arguments with those of --call. */
function withIds<Options extends BulkOptions>(ids: readonly string[], options: Options): Options {
  const all = new Set([...(options.call ?? []), ...ids]);
  return all.size === 0 ? options : { ...options, call: [...all] };
}

function requireSelection(command: ProgramCommand, options: BulkOptions): void {
  const { all = false, call, ...filter } = options;
  const isChosen = all || isFiltered(filter);
  if (call !== undefined && isChosen) usageError(command, "pass ids, or filters, but not both");
  if (call === undefined && !isChosen)
    usageError(command, "select calls by id or with filters, or pass --all for every failed call");
}
