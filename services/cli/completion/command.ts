import { Argument } from "commander";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { GROUP, type ProgramCommand } from "../command.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { Shell } from "./scripts.ts";

const HELP = `
How to load it:
  bash  source <(postern completion bash), in ~/.bashrc
  zsh   source <(postern completion zsh), in ~/.zshrc after compinit
  fish  postern completion fish | source, in ~/.config/fish/config.fish`;

/** Adds `postern completion`. It makes the script from the declarations of all commands, so the script never misses one. */
export function addCompletion(program: ProgramCommand, { print, exitWith }: ProgramDeps): void {
  program
    .command("completion")
    .description("print the script with which a shell completes commands and options")
    .helpGroup(GROUP.run)
    .addArgument(new Argument("<shell>", "shell that runs the script").choices(["bash", "zsh", "fish"]))
    .addHelpText("after", HELP)
    .examples("completion bash")
    .action(async (shell: Shell) => {
      const { completionScript } = await import("./scripts.ts");
      print(completionScript(shell, program));
      exitWith(EXIT.ok);
    });
}
