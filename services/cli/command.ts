import { type Argument, Command, Help, type Option } from "commander";

/** Groups of commands in the help, by task. */
export const GROUP = {
  run: "Run:",
  look: "Look:",
  act: "Act:",
  money: "Money:",
  try: "Try:",
} as const;

/**
 * A commander command that can also have examples. The help and the shell completion are made from the declared
 * commands, options and examples.
 */
export class ProgramCommand extends Command {
  readonly exampleLines: string[] = [];

  override createCommand(name?: string): ProgramCommand {
    return new ProgramCommand(name).helpCommand(false);
  }

  /** Adds example command lines to the help, without the name of the program. */
  examples(...lines: readonly string[]): this {
    this.exampleLines.push(...lines);
    const shown = lines.map((line) => `  postern ${line}`);
    return this.addHelpText("after", ["\nExamples:", ...shown].join("\n"));
  }
}

/** Settings for the help text of every command (`configureHelp` of commander). */
export const HELP = {
  sortSubcommands: false,
  /**
   * Commander's default is 40: it does not wrap descriptions if their column is narrower. On a screen of 80 columns,
   * the longest command leaves only 38 columns for the descriptions.
   */
  minWidthToWrap: 35,
  showGlobalOptions: false,
  subcommandTerm,
  optionDescription,
  argumentDescription,
};

/**
 * Formats a command's name and arguments for the list of commands. If they are too long, only the first argument is
 * shown.
 */
function subcommandTerm(command: Command): string {
  const term = new Help().subcommandTerm(command);
  return term.length <= 30 ? term : term.replace(/> .*$/, "> ...");
}

/** Returns the description of an option, and marks a required option. */
function optionDescription(option: Option): string {
  const text = new Help().optionDescription(option);
  return option.mandatory ? `${text} (required)` : text;
}

function argumentDescription(argument: Argument): string {
  const text = new Help().argumentDescription(argument);
  return argument.required ? `${text} (required)` : text;
}
