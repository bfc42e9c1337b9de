import { type Argument, Command, Help, type Option } from "commander";

/** The groups of commands in the help, by what somebody wants to do. */
export const GROUP = {
  run: "Run:",
  look: "Look:",
  act: "Act:",
  money: "Money:",
  try: "Try:",
} as const;

/** A command with examples. Its help, its place in a group and its completion derive from its declaration. */
export class ProgramCommand extends Command {
  readonly exampleLines: string[] = [];

  override createCommand(name?: string): ProgramCommand {
    return new ProgramCommand(name).helpCommand(false);
  }

  /** Adds command lines to the help, without the name of the program. */
  examples(...lines: readonly string[]): this {
    this.exampleLines.push(...lines);
    const shown = lines.map((line) => `  postern ${line}`);
    return this.addHelpText("after", ["\nExamples:", ...shown].join("\n"));
  }
}

/** How the help of every command looks. */
export const HELP = {
  sortSubcommands: false,
  /** Commander wraps no text with less room than 40 columns. Beside the longest command there are 38 on a screen of 80. */
  minWidthToWrap: 35,
  showGlobalOptions: false,
  subcommandTerm,
  optionDescription,
  argumentDescription,
};

/** A command's name and arguments in the list of commands. Only the first of many arguments is shown, to leave room. */
function subcommandTerm(command: Command): string {
  const term = new Help().subcommandTerm(command);
  return term.length <= 30 ? term : term.replace(/> .*$/, "> ...");
}

/** The description of an option, which says if the option is required. */
function optionDescription(option: Option): string {
  const text = new Help().optionDescription(option);
  return option.mandatory ? `${text} (required)` : text;
}

function argumentDescription(argument: Argument): string {
  const text = new Help().argumentDescription(argument);
  return argument.required ? `${text} (required)` : text;
}
