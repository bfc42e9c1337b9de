import { type Command, Option } from "commander";

/** Commands that run a service until they are stopped. Their output is their log. */
const SERVICES = ["webhooks", "x402", "pricing", "producer", "runner", "operator", "devnet"];

/** Output formats other than text. `wide` is a table with all columns and no cut text; `name` prints only ids. */
export type OutputForm = "json" | "wide" | "name" | "csv" | "calldata";

/** The option of a command that prints a list. */
export function listOutput(): Option {
  const what = "json: one object a line; wide: more columns, nothing cut; name: only ids";
  return new Option("-o, --output <form>", what).choices(["json", "wide", "name"]);
}

/** The option of a command that can print JSON. */
export function jsonOutput(what: string): Option {
  return new Option("-o, --output <form>", what).choices(["json"]);
}

/**
 * Adds --output and --quiet to every command that does not define them itself. Commands whose output has only one
 * format get no --output. `postern dev` gets neither option. It chooses the format itself: text on a terminal, and JSON
 * elsewhere. It also cannot be quiet, because it reads the logs of its child processes to see when they are ready.
 */
export function addOutputOptions(program: Command): void {
  for (const command of leavesOf(program)) {
    const isOfProgram = command.parent === program;
    if (isOfProgram && command.name() === "dev") continue;
    const isService = isOfProgram && SERVICES.includes(command.name());
    const [json, quiet] = isService ? OF_SERVICES : OF_COMMANDS;
    const hasOneForm = ["report", "completion"].includes(command.name());
    if (!has(command, "--output") && !hasOneForm) command.addOption(jsonOutput(json));
    if (!has(command, "--quiet")) command.option("-q, --quiet", quiet);
  }
}

const OF_SERVICES = ["log JSON lines, also on a terminal", "log only warnings and errors"] as const;
const OF_COMMANDS = [
  "print one JSON object",
  "print only requested data and problems; the exit code shows the outcome",
] as const;

/** Returns the commands that can be run, such as `calls list`. A command with subcommands, such as `calls`, only groups them. */
export function leavesOf(command: Command): Command[] {
  return command.commands.length === 0 ? [command] : command.commands.flatMap(leavesOf);
}

function has(command: Command, long: string): boolean {
  return command.options.some((option) => option.long === long);
}

/**
 * Whether the command line contains `-o json`. Reads the raw words instead of parsed options. An error in the command
 * line must be printed as JSON too, and commander has not parsed the options then.
 */
export function isJsonWanted(program: Command): boolean {
  const { rawArgs } = program as Command & { rawArgs?: readonly string[] };
  const [words = []] = [rawArgs];
  const end = words.indexOf("--");
  const line = words.slice(0, end === -1 ? undefined : end).join(" ");
  return /(?:^| )(?:-o ?|--output[= ])json(?: |$)/.test(line);
}
