import { startProcess } from "../../shared/dev/process.ts";
import { beforeDeadline } from "../../shared/dev/wait.ts";

export type CommandResult = { exitCode: number | null; lines: readonly string[] };

/** Runs `postern` with these arguments, as an operator would. */
export type Postern = (...args: string[]) => Promise<CommandResult>;

export function createPostern({ env, configDir }: { env: NodeJS.ProcessEnv; configDir: string }): Postern {
  return async function postern(...args) {
    const lines: string[] = [];
    const command = startProcess({
      name: "postern",
      args: [...args, "--config-dir", configDir],
      env,
      detached: true,
      onLine: (line) => lines.push(line),
    });
    const { code } = await beforeDeadline(`postern ${args.join(" ")} ends`, command.exit);
    return { exitCode: code, lines };
  };
}
