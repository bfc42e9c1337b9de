import { type Argument, Command, Help, type Option } from "commander";

/** Groups of commands in the help, by task. */
export const GROUP = {
  run: "Run:",
  look: "Look:",
  act: "Act:",
  money: "Money:",
  try: "Try:",
} as const;

/** A command with examples. Its help, its group and its shell completion derive from this declaration. */
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

/** Layout of the help of every command. */
export const HELP = {
  sortSubcommands: false,
  /**
   * Commander does not wrap text in columns narrower than 40. On a screen of 80 columns, the longest command leaves
   * only 38 for the descriptions.
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
