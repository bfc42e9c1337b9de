import { CommanderError } from "commander";
import { buildProgram } from "../../../services/cli/program.ts";
import type { ProgramDeps } from "../../../services/cli/program-deps.ts";

/**
 * What the program says to a command line that it refuses, found out in this process: nothing may be started for it.
 */
export async function parse(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const said = { code: undefined as number | undefined, stdout: "", stderr: "" };
  const start = async (): Promise<never> => {
    throw new Error(`a service is started by ${args.join(" ")}`);
  };
  const deps: ProgramDeps = {
    version: "0.0.0",
    env,
    services: {
      ...{ webhooks: start, x402: start, pricing: start, producer: start },
      ...{ runner: start, devnet: start, dev: start },
    },
    terminal: {
      columns: undefined,
      drawsProgress: false,
      canAsk: false,
      ask: async () => "",
      writeBytes() {},
    },
    print(text) {
      said.stdout += text;
    },
    printError(text) {
      said.stderr += text;
    },
    exitWith(code) {
      said.code = code;
    },
  };
  try {
    await buildProgram(deps).parseAsync([...args], { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
  }
  return said;
}
