import type { Command } from "commander";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { configDir, wholeNumber } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { BulkOptions } from "./bulk.ts";
import type { DiscardOptions } from "./discard.ts";
import { addFilterOptions, isFiltered, parseId } from "./filter.ts";
import type { ListOptions } from "./list.ts";
import type { ReplayOptions } from "./replay.ts";
import type { ShowOptions } from "./show.ts";

/** `postern failed ...`: what an operator does with failed calls. Each loads only what it needs. */
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
    .argument("<id>", "the call id", parseId)
    .option("--full", "the whole body, however long")
    .option("--body-only", "the raw bytes of the body and nothing else")
    .option("--json", "one JSON object, the body in base64")
    .addOption(configDir())
    .action(async (id: string, options: ShowOptions) => {
      const { showFailed } = await import("./show.ts");
      deps.exitWith(await showFailed(deps, id, options));
    });
}

function addReplay(failed: Command, deps: ProgramDeps): void {
  addBulkOptions(failed.command("replay"))
    .description(
      "let failed calls wait again, with all their attempts, under the same keys; the oldest first",
    )
    .option("--force", "also calls older than the runner's memory of keys, which it may run twice")
    .action(async (ids: string[], given: ReplayOptions, command: Command) => {
      const options = withIds(ids, given);
      requireSelection(options, command);
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
      requireSelection(options, command);
      if (!options.yes && !options.dryRun && !deps.terminal.canAsk) {
        command.error("error: nobody is there to be asked; --yes discards without", { exitCode: EXIT.usage });
      }
      const { discardFailed } = await import("./discard.ts");
      deps.exitWith(await discardFailed(deps, options));
    });
}

function addBulkOptions(command: Command): Command {
  return addFilterOptions(command, { limit: 0 })
    .argument("[ids...]", "call ids", (id: string, before: string[] = []) => [...before, parseId(id)])
    .option("--all", "every failed call; needed where nothing else chooses")
    .option("--dry-run", "say how many calls it would be, and change nothing")
    .option("--concurrency <n>", "calls at a time", wholeNumber("concurrency", { min: 1, max: 100 }), 8)
    .option("--json", "the outcome as one JSON object")
    .addOption(configDir());
}

function withIds<Options extends BulkOptions>(ids: readonly string[], options: Options): Options {
  const all = new Set([...(options.id ?? []), ...ids]);
  return all.size === 0 ? options : { ...options, id: [...all] };
}

function requireSelection(options: BulkOptions, command: Command): void {
  if (options.all || isFiltered(options)) return;
  command.error("error: name calls or filters; --all means every failed call", { exitCode: EXIT.usage });
}
